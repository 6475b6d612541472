import { createHash } from 'node:crypto'

/** A part of a stratum's ids, sorted and joined by LF. */
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

/** The frame sorts ids in runs of `runLength`, and merges the runs in blocks of `blockLength` ids. */
const runLength = 20_000
const blockLength = 400
const partLength = 64 * 1024

/** A character whose UTF-16 code units do not sort as its UTF-8 bytes do: surrogates, and all code units above them. */
const high = /[\ud800-\uffff]/
type Order = (a: string, b: string) => number
const byUnits: Order = (a, b) => (a < b ? -1 : a > b ? 1 : 0)
/** Compares two ids at their first different code unit: a character of two units sorts after every character of one unit. */
const byBytes: Order = (a, b) => {
  const shorter = Math.min(a.length, b.length)
  let at = 0
  while (at < shorter && a.charCodeAt(at) === b.charCodeAt(at)) at++
  if (at === shorter) return a.length - b.length
  return rank(a.charCodeAt(at)) - rank(b.charCodeAt(at))
}
const rank = (unit: number) => (unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit)

/** Sorted ids of a stratum as JSON, a block of them in each buffer. */
interface Run {
  readonly stratum: string
  readonly blocks: readonly Buffer[]
}

/**
 * Collects the ids of a frame in any order and yields the ids sorted bytewise. The frame keeps the ids as sorted runs in
 * buffers outside the JavaScript heap: a million ids take some twenty megabytes.
 */
export class Frame {
  readonly #open = new Map<string, string[]>()
  readonly #runs: Run[] = []
  readonly #sealed = new Map<string, number>()
  #order = byUnits
  readonly #hash = createHash('sha256')

  static of(strata: Iterable<readonly [string, Iterable<string>]>): Frame {
    const frame = new Frame()
    for (const [stratum, ids] of strata) for (const id of ids) frame.add(stratum, id)
    return frame
  }

  add(stratum: string, id: string): void {
    // No id in the runs so far has such a character, so both orders sort these runs in the same way.
    if (this.#order === byUnits && high.test(id)) this.#order = byBytes
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

  /** Yields all ids in order, part by part. Works once, and throws at an id that the frame has twice. */
  *parts(): Generator<FramePart> {
    for (const [stratum, ids] of this.#open) this.#close(stratum, ids)
    const filling = new Map<string, { ids: string[]; length: number; part: number }>()
    let hashing: string[] = []
    let last: string | undefined
    for (const { stratum, ids, from, to } of merged(this.#runs, this.#order)) {
      let into = filling.get(stratum)
      if (!into) filling.set(stratum, (into = { ids: [], length: 0, part: 0 }))
      for (let at = from; at < to; at++) {
        const id = ids[at]!
        if (id === last) throw new RepeatedId(id)
        // An LF stands between two ids, so the first id has none before it.
        hashing.push(last === undefined ? id : `\n${id}`)
        last = id
        into.ids.push(id)
        into.length += id.length + 1
        if (into.length < partLength) continue
        yield { stratum, part: into.part++, ids: into.ids.join('\n') }
        into.ids = []
        into.length = 0
      }
      if (hashing.length < 2000) continue
      this.#hash.update(hashing.join(''))
      hashing = []
    }
    this.#hash.update(hashing.join(''))
    for (const [stratum, { ids, part }] of filling)
      if (ids.length > 0) yield { stratum, part, ids: ids.join('\n') }
  }

  /** SHA-256 of all ids, sorted and joined by LF. Call it after `parts` has yielded its last part. */
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
    const blocks = []
    for (let at = 0; at < ids.length; at += blockLength)
      blocks.push(Buffer.from(JSON.stringify(ids.slice(at, at + blockLength))))
    this.#runs.push({ stratum, blocks })
  }
}

// A block is JSON and not text to split at line feeds: V8 compares slices of a larger string ten times as slowly.
const idsOf = (block: Buffer): string[] => JSON.parse(block.toString('utf8')) as string[]

/** The position of the merge in one run: the ids that it yielded last, and the next id. */
interface Cursor {
  readonly stratum: string
  readonly blocks: Iterator<Buffer>
  ids: readonly string[]
  from: number
  to: number
  /** The id at `to`. */
  next: string
}

/** Merges sorted runs with a heap of each run's next id. Yields the longest stretch of ids that comes from one run. */
function* merged(runs: readonly Run[], order: Order): Generator<Cursor> {
  const heap: Cursor[] = []
  for (const { stratum, blocks } of runs) {
    const cursor = { stratum, blocks: blocks.values(), ids: [], from: 0, to: 0, next: '' }
    if (hasNext(cursor)) heap.push(cursor)
  }
  heap.sort((a, b) => order(a.next, b.next))
  for (let top = heap[0]; top; top = heap[0]) {
    const { ids } = top
    top.from = top.to
    const other = secondOf(heap, order)
    if (other === undefined || order(ids.at(-1)!, other) < 0) top.to = ids.length
    else
      do top.to++
      while (order(ids[top.to]!, other) < 0)
    yield top
    if (!hasNext(top)) {
      const last = heap.pop()
      if (heap.length === 0 || !last) return
      heap[0] = last
    }
    sink(heap, order)
  }
}

/** Steps to the next id of a run, in the run's next block where the present block has ended. */
function hasNext(cursor: Cursor): boolean {
  if (cursor.to === cursor.ids.length) {
    const block = cursor.blocks.next()
    if (block.done) return false
    cursor.ids = idsOf(block.value)
    cursor.to = 0
  }
  cursor.next = cursor.ids[cursor.to]!
  return true
}

/** The smallest next id below the top of the heap. */
function secondOf(heap: readonly Cursor[], order: Order): string | undefined {
  const [, left, right] = heap
  return left && right && order(right.next, left.next) < 0 ? right.next : left?.next
}

function sink(heap: Cursor[], order: Order): void {
  let at = 0
  for (;;) {
    let least = at
    const end = Math.min(2 * at + 3, heap.length)
    for (let child = 2 * at + 1; child < end; child++)
      if (order(heap[child]!.next, heap[least]!.next) < 0) least = child
    if (least === at) return
    const kept = heap[at]!
    heap[at] = heap[least]!
    heap[least] = kept
    at = least
  }
}
