import type { Beacon } from '../request.ts'
import { conflicting, invalid } from '../refusal.ts'

/**
 * Public beacons whose rounds have a time: chain hash to its first second and its period, as `/info` of each chain
 * says. The first is drand's default chain, the second quicknet.
 */
const chains: Readonly<Record<string, { readonly genesis: number; readonly period: number }>> = {
  '8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce': {
    genesis: 1_595_431_050,
    period: 30,
  },
  '52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971': {
    genesis: 1_692_803_367,
    period: 3,
  },
}

/** When a round is published, in milliseconds; undefined for a beacon that the caller answers for. */
function publishedAt({ source, round }: Beacon): number | undefined {
  if (source === 'caller') return undefined
  const chain = chains[source.slice('drand:'.length)]
  if (!chain)
    throw invalid(
      'beacon.source',
      `the chain of ${source} is not known`,
      `Known chains: ${Object.keys(chains).join(', ')}. Or use "caller" and publish the round yourself.`,
    )
  if (!/^[1-9]\d{0,9}$/.test(String(round)))
    throw invalid('beacon.round', `give the number of a round, not ${JSON.stringify(round)}`)
  return (chain.genesis + (Number(round) - 1) * chain.period) * 1000
}

/** A commitment is worth nothing when the round is known: it must lie ahead. */
export function mustLieAhead(beacon: Beacon, now: number): void {
  const at = publishedAt(beacon)
  if (at !== undefined && at <= now)
    throw invalid(
      'beacon.round',
      `round ${beacon.round} was published at ${new Date(at).toISOString()}, before the commitment`,
      'Name a round that is still to come.',
    )
}

/** What is said to be the value of a round must come after the round. */
export function mustBePublished(beacon: Beacon, beaconHex: string, now: number): void {
  const at = publishedAt(beacon)
  if (at === undefined) return
  if (at > now)
    throw conflicting(
      `Round ${beacon.round} is published at ${new Date(at).toISOString()}, and that is still to come.`,
      'Reveal the value after that.',
      { field: 'beaconHex', value: beaconHex, publishedAt: new Date(at).toISOString() },
    )
  if (beaconHex.length !== 64)
    throw invalid(
      'beaconHex',
      `the randomness of a drand round has 64 digits, not ${beaconHex.length}`,
    )
}
