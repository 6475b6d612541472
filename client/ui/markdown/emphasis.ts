import type { Inline } from './tree.ts'

/** How deep pieces of a line nest; what nests deeper is text. */
const deepest = 60

/** A piece of a line while it is read. The pieces know their neighbours, so that one can take others in without moving the rest. */
export class Node {
  value: Inline
  next: Node | undefined
  previous: Node | undefined
  depth = 0

  constructor(value: Inline) {
    this.value = value
  }

  /** Puts the piece behind another one. */
  after(other: Node): void {
    this.previous = other
    this.next = other.next
    if (other.next) other.next.previous = this
    other.next = this
  }

  /** Takes away everything behind the piece, and returns it. */
  rest(): Inline[] {
    const found: Inline[] = []
    let depth = 0
    for (let node = this.next; node; node = node.next) {
      depth = Math.max(depth, node.depth)
      add(found, node.value)
    }
    this.next = undefined
    this.depth = depth + 1
    return found
  }
}

/** The pieces of a line: those behind the head. */
export interface Chain {
  readonly head: Node
}

/** A run of `*`, `_` or `~` that may begin or end an emphasis. */
export interface Delimiter {
  readonly node: Node
  readonly mark: '*' | '_' | '~'
  readonly length: number
  /** How many of its marks are not used yet. */
  left: number
  readonly opens: boolean
  readonly closes: boolean
}

/** The pieces of a line, text beside text as one. */
export function textOf({ head }: Chain): readonly Inline[] {
  const found: Inline[] = []
  for (let node = head.next; node; node = node.next) add(found, node.value)
  return found
}

function add(to: Inline[], value: Inline): void {
  const last = to.at(-1)
  if (typeof value === 'string' && typeof last === 'string') to[to.length - 1] = last + value
  else if (value !== '') to.push(value)
}

/** Pairs the delimiters from a place in the list on, and has what stands between two of a pair taken in. */
export function emphasized(delimiters: Delimiter[], from: number): void {
  // The openers that are still open, and below which of them no opener of a kind was found.
  const open: Delimiter[] = []
  const bottoms = new Map<string, number>()
  for (const closer of delimiters.slice(from)) {
    while (closer.closes && closer.left > 0) {
      const kind = `${closer.mark}${closer.opens ? 1 : 0}${closer.length % 3}${closer.mark === '~' ? closer.length : ''}`
      const bottom = bottoms.get(kind) ?? 0
      let at = open.length - 1
      while (at >= bottom && !fits(open[at], closer)) at--
      const opener = at >= bottom ? open[at] : undefined
      if (!opener) {
        bottoms.set(kind, open.length)
        break
      }
      open.length = at + 1
      for (const [name, place] of bottoms) if (place > open.length) bottoms.set(name, open.length)
      if (!pair(opener, closer)) break
      if (opener.left === 0) open.length = at
    }
    if (closer.opens && closer.left > 0) open.push(closer)
  }
}

function fits(opener: Delimiter | undefined, closer: Delimiter): boolean {
  if (opener?.mark !== closer.mark || opener.left === 0) return false
  if (closer.mark === '~') return opener.left === closer.left
  // A run that may do both pairs only where the lengths could not mean something else.
  const both = opener.closes || closer.opens
  const isOdd = (opener.length + closer.length) % 3 === 0
  return !both || !isOdd || (opener.length % 3 === 0 && closer.length % 3 === 0)
}

/** Takes what stands between two delimiters into an emphasis; false where that would nest too deep. */
function pair(opener: Delimiter, closer: Delimiter): boolean {
  const isStrike = closer.mark === '~'
  const used = isStrike ? closer.left : opener.left >= 2 && closer.left >= 2 ? 2 : 1
  const children: Inline[] = []
  let depth = 0
  for (let node = opener.node.next; node && node !== closer.node; node = node.next) {
    depth = Math.max(depth, node.depth)
    add(children, node.value)
  }
  opener.left -= used
  closer.left -= used
  if (depth >= deepest) {
    opener.left = closer.left = 0
    return false
  }
  opener.node.value = opener.mark.repeat(opener.left)
  closer.node.value = closer.mark.repeat(closer.left)
  const type = isStrike ? 'del' : used === 2 ? 'strong' : 'em'
  const node = new Node({ type, children })
  node.depth = depth + 1
  node.previous = opener.node
  node.next = closer.node
  opener.node.next = node
  closer.node.previous = node
  return true
}
