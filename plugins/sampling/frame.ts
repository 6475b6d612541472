import { createHash } from 'node:crypto'

/** The ids of a frame, sorted bytewise, each once. */
export interface Frame {
  readonly digest: string
  readonly counts: Readonly<Record<string, number>>
  /** The ids of each stratum in parts of about 64 KiB, joined by LF. */
  parts(): Generator<{ readonly stratum: string; readonly part: number; readonly ids: string }>
}

const partLength = 64 * 1024

/** Sorts text as its UTF-8 bytes sort. Code units differ from that order only above U+D7FF. */
function sortBytewise(ids: string[]): string[] {
  const high = /[\ud800-\uffff]/
  return ids.some((id) => high.test(id))
    ? ids.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    : ids.sort()
}

/** Freezes a frame. Returns the id that stands in it twice, if one does. */
export function freeze(strata: ReadonlyMap<string, string[]>): Frame | { readonly twice: string } {
  for (const ids of strata.values()) sortBytewise(ids)
  const whole =
    strata.size === 1 ? [...strata.values()][0]! : sortBytewise([...strata.values()].flat())
  const hash = createHash('sha256')
  let chunk: string[] = []
  let last: string | undefined
  for (const id of whole) {
    if (id === last) return { twice: id }
    // LF stands between ids, so only the first has none before it.
    chunk.push(last === undefined ? id : `\n${id}`)
    last = id
    if (chunk.length === 1000) {
      hash.update(chunk.join(''))
      chunk = []
    }
  }
  hash.update(chunk.join(''))
  return {
    digest: hash.digest('hex'),
    counts: Object.fromEntries([...strata].map(([name, ids]) => [name, ids.length])),
    *parts() {
      for (const [stratum, ids] of strata) yield* partsOf(stratum, ids)
    },
  }
}

function* partsOf(stratum: string, ids: readonly string[]) {
  let start = 0
  let length = 0
  let part = 0
  for (let at = 0; at < ids.length; at++) {
    length += ids[at]!.length + 1
    if (length < partLength && at < ids.length - 1) continue
    yield { stratum, part: part++, ids: ids.slice(start, at + 1).join('\n') }
    start = at + 1
    length = 0
  }
}
