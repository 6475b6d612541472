import { createHash } from 'node:crypto'

/** A stretch of a stratum's ids, sorted and joined by LF. */
export interface FramePart {
  readonly stratum: string
  readonly part: number
  readonly ids: string
}

/** An id that stands in a frame twice. */
export class RepeatedId extends Error {
  readonly id: string
  constructor(id: string) {
    super(`The id "${id}" stands in the frame twice.`)
    this.id = id
  }
}

/** Ids are put in order as runs of so many, which then are merged. */
const runLength = 20_000
const partLength = 64 * 1024

/** Code units sort as UTF-8 bytes do, except from here on. */
const high = /[\ud800-\uffff]/
type Order = (a: string, b: string) => number
const byUnits: Order = (a, b) => (a < b ? -1 : a > b ? 1 : 0)
const byBytes: Order = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))

/**
 * Collects the ids of a frame in any order and gives them back sorted bytewise. What has arrived is kept as sorted
 * runs of bytes, outside the heap: a million ids are some twenty megabytes.
 */
export class Frame {
  readonly #open = new Map<string, string[]>()
  readonly #runs: { readonly stratum: string; readonly bytes: Buffer }[] = []
  readonly #sealed = new Map<string, number>()
  #order = byUnits
  readonly #hash = createHash('sha256')

  static of(strata: Iterable<readonly [string, Iterable<string>]>): Frame {
    const frame = new Frame()
    for (const [stratum, ids] of strata) for (const id of ids) frame.add(stratum, id)
    return frame
  }

  add(stratum: string, id: string): void {
    if (this.#order === byUnits && high.test(id)) {
      this.#order = byBytes
      // Runs in the other order would merge wrongly.
      for (const run of this.#runs.splice(0))
        this.#seal(run.stratum, run.bytes.toString().split('\n'))
    }
    let ids = this.#open.get(stratum)
    if (!ids) this.#open.set(stratum, (ids = []))
    if (ids.push(id) === runLength) this.#close(stratum, ids)
  }

  /** How many ids each stratum has. */
  get counts(): ReadonlyMap<string, number> {
    const counts = new Map(this.#sealed)
    for (const [stratum, ids] of this.#open)
      counts.set(stratum, (counts.get(stratum) ?? 0) + ids.length)
    return counts
  }

  /** All ids in order, stretch by stretch, once; throws at one that stands there twice. */
  *parts(): Generator<FramePart> {
    for (const [stratum, ids] of this.#open) this.#close(stratum, ids)
    const filling = new Map<string, { ids: string[]; length: number; part: number }>()
    let chunk: string[] = []
    let last: string | undefined
    for (const { stratum, id } of merged(this.#runs, this.#order)) {
      if (id === last) throw new RepeatedId(id)
      // LF stands between ids, so only the first has none before it.
      if (last !== undefined) chunk.push('\n')
      chunk.push(id)
      last = id
      if (chunk.length > 2000) {
        this.#hash.update(chunk.join(''))
        chunk = []
      }
      let into = filling.get(stratum)
      if (!into) filling.set(stratum, (into = { ids: [], length: 0, part: 0 }))
      into.ids.push(id)
      into.length += id.length + 1
      if (into.length < partLength) continue
      yield { stratum, part: into.part, ids: into.ids.join('\n') }
      filling.set(stratum, { ids: [], length: 0, part: into.part + 1 })
    }
    this.#hash.update(chunk.join(''))
    for (const [stratum, { ids, part }] of filling)
      if (ids.length > 0) yield { stratum, part, ids: ids.join('\n') }
  }

  /** SHA-256 of all ids, sorted and joined by LF: known once `parts` has come to its end. */
  digest(): string {
    return this.#hash.copy().digest('hex')
  }

  #close(stratum: string, ids: string[]): void {
    this.#open.delete(stratum)
    this.#sealed.set(stratum, (this.#sealed.get(stratum) ?? 0) + ids.length)
    this.#seal(stratum, ids)
  }

  #seal(stratum: string, ids: string[]): void {
    if (this.#order === byUnits) ids.sort()
    else ids.sort(byBytes)
    this.#runs.push({ stratum, bytes: Buffer.from(ids.join('\n')) })
  }
}

interface Cursor {
  id: string
  readonly stratum: string
  readonly rest: Iterator<string>
}

/** Merges sorted runs: a heap of the next id of each. */
function* merged(
  runs: readonly { readonly stratum: string; readonly bytes: Buffer }[],
  order: Order,
): Generator<{ readonly stratum: string; readonly id: string }> {
  const heap: Cursor[] = []
  for (const { stratum, bytes } of runs) {
    const rest = idsIn(bytes)
    const first = rest.next()
    if (!first.done) heap.push({ id: first.value, stratum, rest })
  }
  heap.sort((a, b) => order(a.id, b.id))
  for (let top = heap[0]; top; top = heap[0]) {
    yield top
    const next = top.rest.next()
    if (!next.done) top.id = next.value
    else {
      const last = heap.pop()
      if (heap.length === 0 || !last) return
      heap[0] = last
    }
    sink(heap, order)
  }
}

function sink(heap: Cursor[], order: Order): void {
  let at = 0
  for (;;) {
    let least = at
    for (const child of [2 * at + 1, 2 * at + 2])
      if (child < heap.length && order(heap[child]!.id, heap[least]!.id) < 0) least = child
    if (least === at) return
    const kept = heap[at]!
    heap[at] = heap[least]!
    heap[least] = kept
    at = least
  }
}

/** The ids of a run, a stretch of bytes at a time. */
function* idsIn(bytes: Buffer): Generator<string> {
  for (let start = 0; start < bytes.length;) {
    const found = bytes.indexOf(0x0a, start + 4096)
    const end = found < 0 ? bytes.length : found
    yield* bytes.toString('utf8', start, end).split('\n')
    start = end + 1
  }
}
