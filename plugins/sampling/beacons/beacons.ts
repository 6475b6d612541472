import { conflicting, invalid } from '../refusal.ts'
import { chainOf, mustBePublished, mustLieAhead, numberOf } from '../selection/beacon.ts'
import type { Beacon, Reveal } from '../selection/request.ts'
import type { StoredBeacon } from '../tables.ts'
import type { Fetch } from './addresses.ts'
import { roundAt } from './chains.ts'
import { Ledger } from './ledger.ts'
import type { Evidence } from './published.ts'
import { fetchRound } from './relays.ts'

/** The value of a round, with what proves it where something does. */
export interface Value {
  readonly beaconHex: string
  readonly evidence?: Evidence
}

/** Where the beacons of a server are reached, and the clock that their rounds are compared with. */
export interface BeaconOptions {
  readonly fetch: Fetch
  readonly relays: readonly string[]
  readonly ledger: readonly string[]
  readonly now: () => number
}

/** The public beacons that seed draws: which rounds a commitment may name, and what their values are. */
export class Beacons {
  readonly #fetch: Fetch
  readonly #relays: readonly string[]
  readonly #ledger: Ledger
  readonly #now: () => number

  constructor({ fetch, relays, ledger, now }: BeaconOptions) {
    this.#fetch = fetch
    this.#relays = relays
    this.#ledger = new Ledger(fetch, ledger)
    this.#now = now
  }

  /** A beacon as commitments keep it: with the hash of its chain, and the number of its round where a time was given. */
  stored({ source, round, at }: Beacon): StoredBeacon {
    if (source === 'verifier') return { source }
    const chain = chainOf(source)
    if (chain && round === undefined && at !== undefined)
      return { source: `drand:${chain.hash}`, round: roundAt(chain, Date.parse(at)) }
    if (at !== undefined)
      throw invalid('beacon.at', 'only a round of drand follows from a time, and from it alone')
    if (round === undefined)
      throw invalid('beacon.round', 'missing; give the number of the round, or its name')
    const named = { source: chain ? `drand:${chain.hash}` : source, round }
    if (!chain && !source.startsWith('ledger:')) return named
    return { source: named.source, round: numberOf(named) }
  }

  /** Refuses a round whose value may be known at the time of the commitment. */
  async mustLieAhead(beacon: StoredBeacon, signal: AbortSignal): Promise<void> {
    mustLieAhead(beacon, this.#now())
    const chainId = chainIdOf(beacon)
    if (chainId === undefined) return
    const newest = await this.#configured(beacon).latest(signal)
    if (newest.chainId !== chainId)
      throw invalid(
        'beacon.source',
        `the configured ledger is ${newest.chainId}, not ${chainId}`,
        `Name "ledger:${newest.chainId}".`,
      )
    if (numberOf(beacon) <= newest.height)
      throw invalid(
        'beacon.round',
        `the ledger has reached the height ${newest.height}, so the hash at ${beacon.round} is known`,
        'Name a height that is still to come.',
      )
  }

  /** The value of a committed round: verified, fetched, or of a `caller` beacon as the caller says. */
  async valueOf(beacon: StoredBeacon, reveal: Reveal, signal: AbortSignal): Promise<Value> {
    const { beaconHex, published } = reveal
    if (beacon.source === 'caller') {
      if (beaconHex === undefined)
        throw invalid('beaconHex', 'give either the value of the beacon or "external"')
      return { beaconHex }
    }
    const value =
      chainIdOf(beacon) === undefined
        ? await this.#drand(beacon, beaconHex, published, signal)
        : await this.#block(beacon, signal)
    if (beaconHex !== undefined && beaconHex !== value.beaconHex)
      throw invalid(
        'beaconHex',
        `the value of round ${beacon.round} is ${value.beaconHex}, not ${beaconHex}`,
        'Leave beaconHex out: the value follows from what proves it.',
      )
    return value
  }

  async #drand(
    beacon: StoredBeacon,
    beaconHex: string | undefined,
    published: Reveal['published'],
    signal: AbortSignal,
  ): Promise<Value> {
    const chain = chainOf(beacon.source)
    if (!chain) throw invalid('beacon.source', `${beacon.source} is not known`)
    mustBePublished(beacon, beaconHex, this.#now())
    const round = numberOf(beacon)
    if (published) {
      const { verifyRound } = await import('./drand.ts')
      const found = verifyRound(chain, round, published)
      if ('fault' in found) throw invalid('published', found.fault)
      return { beaconHex: found.randomness, evidence: found.evidence }
    }
    if (this.#relays.length === 0)
      throw invalid(
        'published',
        `missing; give the answer of a drand relay for round ${round}, with its signature`,
        `Open <relay>/${chain.hash}/public/${round} and paste it, or have the operator set DRAND_URL.`,
      )
    const found = await fetchRound(this.#fetch, this.#relays, chain, round, signal)
    return { beaconHex: found.randomness, evidence: found.evidence }
  }

  async #block(beacon: StoredBeacon, signal: AbortSignal): Promise<Value> {
    const height = numberOf(beacon)
    const ledger = this.#configured(beacon)
    const newest = await ledger.latest(signal)
    if (newest.height < height)
      throw conflicting(
        `The ledger has reached the height ${newest.height}, and ${height} is still to come.`,
        'Reveal the value after that.',
        { field: 'beacon.round', value: height, height: newest.height },
      )
    const block = await ledger.at(height, signal)
    if (block.chainId !== chainIdOf(beacon))
      throw conflicting(
        `The configured ledger is ${block.chainId}, and ${beacon.source} was committed.`,
        'Have the operator set LEDGER_URL to the ledger of the commitment.',
        { field: 'beacon.source', value: beacon.source },
      )
    return { beaconHex: block.blockHash, evidence: block }
  }

  #configured({ source }: StoredBeacon): Ledger {
    if (this.#ledger.isConfigured) return this.#ledger
    throw invalid(
      'beacon.source',
      `no ledger is configured for ${source}`,
      'Have the operator set LEDGER_URL, or name a round of drand.',
    )
  }
}

/** The chain id in a source such as `ledger:<chain id>`. */
const chainIdOf = ({ source }: StoredBeacon): string | undefined =>
  source.startsWith('ledger:') ? source.slice('ledger:'.length) : undefined
