import { chainNamed, timeOf } from '../beacons/chains.ts'
import { verifyRound } from '../beacons/drand.ts'
import type { DrandEvidence, LedgerEvidence } from '../beacons/published.ts'
import type { Selection } from '../design/record.ts'
import { Frame, RepeatedId } from '../selection/frame.ts'
import { sampler, seedOf } from '../selection/sampler.ts'

/** A published selection, of this version or an earlier one, whose files have fewer members. */
export type Audited = Pick<
  Selection,
  'designId' | 'frameDigest' | 'committedAt' | 'source' | 'round' | 'beaconHex' | 'strata'
> &
  Partial<Selection>

/**
 * Draws a selection again from the ids of the frame and the value of the beacon, verifies what proves the value, and
 * returns a sentence for each thing that is wrong. The audit needs no API key, no server and no network.
 */
export function audit(selection: Audited, frame: ReadonlyMap<string, string[]>): string[] {
  let digest: string
  try {
    digest = digestOf(frame)
  } catch (error) {
    if (error instanceof RepeatedId) return [error.message]
    throw error
  }
  const { frameDigest, strata } = selection
  const found: string[] = []
  if (digest !== frameDigest)
    found.push(`The ids hash to ${digest}, but ${frameDigest} was committed.`)
  found.push(...chosen(selection))
  if (!strata) return [...found, 'Nothing is drawn yet.']
  return [...found, ...unproven(selection), ...redrawn(selection, strata, frame)]
}

/**
 * Why nobody can check that the value of a draw was not chosen; undefined where everybody can. A selection may agree with
 * its ids and still be one of many that somebody has tried.
 */
export function unverifiable({ source, external, evidence }: Audited): string | undefined {
  if (external) return `the verifier ${external.verifier} drew it outside: "${external.method}"`
  if (source === 'caller') return 'its value is the caller’s own, who could try many'
  if (source === 'verifier') return 'the frame was committed for a verifier to draw from'
  if (!evidence) return 'the file holds no proof of the value; send the signature of the round'
  return undefined
}

/** What contradicts the ids when each stratum is drawn again. */
function redrawn(
  { designId, frameDigest, beaconHex, external }: Audited,
  strata: NonNullable<Selection['strata']>,
  frame: ReadonlyMap<string, string[]>,
): string[] {
  const found: string[] = []
  for (const { name, seed, ids, reserves } of strata) {
    const all = frame.get(name) ?? []
    if (external) {
      const known = new Set(all)
      for (const id of ids)
        if (!known.has(id)) found.push(`"${id}" of stratum "${name}" is not in the frame.`)
      continue
    }
    const expected = seedOf({ designId, stratum: name, frameDigest, beaconHex: beaconHex ?? '' })
    if (seed !== expected) found.push(`The seed of stratum "${name}" is not ${expected}.`)
    const claimed = [...ids, ...reserves]
    const drawing = sampler(expected, claimed.length)
    for (const id of all) drawing.offer(id)
    const drawn = drawing.drawn()
    const at = claimed.findIndex((id, index) => id !== drawn[index])
    if (at >= 0)
      found.push(
        `In stratum "${name}" place ${at + 1} is "${claimed[at]}", but "${drawn[at] ?? 'nobody'}" was drawn.`,
      )
  }
  return found
}

/** What is wrong with the proof of a value: the signature of a round, or the block of a ledger. */
function unproven(selection: Audited): string[] {
  const { source, round, beaconHex, evidence, external, commitments = [] } = selection
  if (external || !evidence || beaconHex === undefined) return []
  if (source.startsWith('ledger:')) {
    const { chainId, height, blockHash } = evidence as LedgerEvidence // the source tells which proof it is
    return `ledger:${chainId}` === source && height === Number(round) && blockHash === beaconHex
      ? []
      : [`The block ${height} of ${chainId} with the hash ${blockHash} does not give the value.`]
  }
  if (!source.startsWith('drand:')) return []
  const chain = chainNamed(source.slice('drand:'.length))
  if (!chain) return [`The chain of ${source} is not known.`]
  const { signature, previousSignature, round: signed } = evidence as DrandEvidence // the source tells which proof it is
  const verified = verifyRound(chain, Number(round), {
    round: signed,
    signature: String(signature).toLowerCase(),
    randomness: beaconHex,
    ...(previousSignature !== undefined && { previous_signature: previousSignature }),
  })
  const found =
    'fault' in verified ? [`The value of the beacon is not proven: ${verified.fault}.`] : []
  // The commitment that a larger sample extends is the one that has to precede the round.
  const first = commitments.find(
    (one) => one.frameDigest === selection.frameDigest && one.source === source,
  )
  const committed = first?.committedAt ?? selection.committedAt
  const published = timeOf(chain, Number(round))
  if (Date.parse(committed) >= published)
    found.push(
      `Round ${round} was published at ${new Date(published).toISOString()}, before the commitment of ${committed}.`,
    )
  return found
}

/** A frame with several draws of its own: somebody may have drawn until a draw suited. */
function chosen({ commitments = [] }: Audited): string[] {
  const draws = new Map<string, number[]>()
  for (const { frameDigest, source, extends: base, number } of commitments)
    if (base === undefined && source !== 'verifier')
      draws.set(frameDigest, [...(draws.get(frameDigest) ?? []), number])
  return [...draws]
    .filter(([, numbers]) => numbers.length > 1)
    .map(
      ([digest, numbers]) =>
        `The frame ${digest} was committed ${numbers.length} times, each for a draw of its own: numbers ${numbers.join(', ')}.`,
    )
}

function digestOf(strata: ReadonlyMap<string, string[]>): string {
  const frame = Frame.of(strata)
  // `digest` has its value only after `parts` has yielded every part.
  for (const _ of frame.parts());
  return frame.digest()
}
