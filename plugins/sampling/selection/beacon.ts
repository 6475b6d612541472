import { chainNamed, chains, timeOf, type Chain } from '../beacons/chains.ts'
import { conflicting, invalid } from '../refusal.ts'
import type { StoredBeacon } from '../tables.ts'

/** The chain of a source such as `drand:quicknet` or `drand:<chain hash>`; undefined for a source that is not drand. */
export function chainOf(source: string): Chain | undefined {
  if (!source.startsWith('drand:')) return undefined
  const chain = chainNamed(source.slice('drand:'.length))
  if (chain) return chain
  throw invalid(
    'beacon.source',
    `the chain of ${source} is not known`,
    `Known chains: ${chains.map(({ name, hash }) => `${name} (${hash})`).join(', ')}.`,
  )
}

/** The number of a round of drand, or a height of the ledger. */
export function numberOf({ round }: StoredBeacon): number {
  if (/^[1-9]\d{0,9}$/.test(String(round))) return Number(round)
  throw invalid('beacon.round', `give the number of a round, not ${JSON.stringify(round)}`)
}

/** When the beacon publishes a round, in milliseconds; undefined for a beacon whose rounds have no known times. */
export function publishedAt(beacon: StoredBeacon): number | undefined {
  const chain = chainOf(beacon.source)
  return chain && timeOf(chain, numberOf(beacon))
}

/** Refuses a round that is published already: its value is known, so the caller could choose the frame to fit the value. */
export function mustLieAhead(beacon: StoredBeacon, now: number): void {
  const at = publishedAt(beacon)
  if (at !== undefined && at <= now)
    throw invalid(
      'beacon.round',
      `round ${beacon.round} was published at ${new Date(at).toISOString()}, before the commitment`,
      'Name a round that is still to come.',
    )
}

/** Refuses a value for a round that the beacon has not published yet. */
export function mustBePublished(beacon: StoredBeacon, beaconHex: string | undefined, now: number) {
  const at = publishedAt(beacon)
  if (at === undefined) return
  if (at > now)
    throw conflicting(
      `Round ${beacon.round} is published at ${new Date(at).toISOString()}, and that is still to come.`,
      'Reveal the value after that.',
      { field: 'beaconHex', value: beaconHex ?? null, publishedAt: new Date(at).toISOString() },
    )
  if (beaconHex !== undefined && beaconHex.length !== 64)
    throw invalid(
      'beaconHex',
      `the randomness of a drand round has 64 digits, not ${beaconHex.length}`,
    )
}
