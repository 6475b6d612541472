import { parsed, type Selection } from '../design/record.ts'
import { committedSizes, type CommitmentRow } from './commitment.ts'
import { sampler, seedOf } from './sampler.ts'
import type { StoredFrames } from './stored-frames.ts'

/** Hears how many ids of how many the draw has looked at. */
export type Progress = (done: number, total: number) => void

interface Stratum {
  readonly frameId: string
  readonly name: string
  readonly seed: string
  readonly take: number
}

interface Watching {
  readonly signal?: AbortSignal
  looked?(count: number): void
}

/** Draws from one stratum of a stored frame. */
export async function drawStratum(
  frames: StoredFrames,
  { frameId, name, seed, take }: Stratum,
  { signal, looked }: Watching = {},
): Promise<string[]> {
  const drawing = sampler(seed, take)
  for await (const ids of frames.ids(frameId, name)) {
    signal?.throwIfAborted()
    for (const id of ids) drawing.offer(id)
    looked?.(ids.length)
    // Hashing a large frame takes seconds, so other requests run between two parts.
    await new Promise((resolve) => setImmediate(resolve))
  }
  return drawing.drawn()
}

/** Draws from every stratum of a committed frame, each with its reserves. */
export async function drawAll(
  frames: StoredFrames,
  designId: string,
  row: CommitmentRow,
  { beaconHex, reserves }: { beaconHex: string; reserves: number | undefined },
  { signal, progress }: { signal: AbortSignal; progress?: Progress },
): Promise<NonNullable<Selection['strata']>> {
  const counts = parsed<Record<string, number>>(row.frame_counts)
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
  let done = 0
  const looked = (count: number) => progress?.((done += count), total)
  const strata = []
  for (const [name, size] of committedSizes(row)) {
    const seed = seedOf({ designId, stratum: name, frameDigest: row.frame_digest, beaconHex })
    const take = size + (reserves ?? Math.ceil(size / 10))
    const stratum = { frameId: row.frame_id, name, seed, take }
    const drawn = await drawStratum(frames, stratum, { signal, looked })
    strata.push({ name, seed, ids: drawn.slice(0, size), reserves: drawn.slice(size) })
  }
  return strata
}
