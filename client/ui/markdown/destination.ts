import { unescaped } from './tree.ts'

/** How long an address and a title may be; what is longer is text. */
const [longestAddress, longestTitle, deepestBrackets] = [8_192, 2_000, 32]

/** An address with the title behind it, and where both end. */
export interface Destination {
  readonly href: string
  readonly end: number
}

/**
 * Reads what stands behind `](`, up to the `)`; or what stands behind `]:`, up to the end of a line. Undefined where that
 * is no address.
 */
export function readDestination(
  text: string,
  from: number,
  isDefinition = false,
): Destination | undefined {
  let at = spaceAfter(text, from)
  const address = text[at] === '<' ? inAngles(text, at) : bare(text, at)
  if (address === undefined || (isDefinition && address.end === at)) return undefined
  at = address.end
  const href = unescaped(address.text)
  const gap = spaceAfter(text, at)
  const title = gap > at ? titleEnd(text, gap) : undefined
  if (!isDefinition) {
    const end = spaceAfter(text, title ?? gap)
    return text[end] === ')' ? { href, end: end + 1 } : undefined
  }
  const [behindTitle, behindAddress] = [
    title === undefined ? -1 : lineEnd(text, title),
    lineEnd(text, at),
  ]
  const end = behindTitle >= 0 ? behindTitle : behindAddress
  return end >= 0 ? { href, end } : undefined
}

/** The end of the line, where nothing but spaces stands up to there; else -1. */
function lineEnd(text: string, from: number): number {
  let at = from
  while (text[at] === ' ' || text[at] === '\t') at++
  return at >= text.length || text[at] === '\n' ? at : -1
}

function spaceAfter(text: string, from: number): number {
  let at = from
  while (/[ \t\n]/.test(text[at] ?? '')) at++
  return at
}

function inAngles(text: string, from: number): { text: string; end: number } | undefined {
  const most = Math.min(text.length, from + longestAddress)
  for (let at = from + 1; at < most; at++) {
    const mark = text[at]
    if (mark === '\\') at++
    else if (mark === '>') return { text: text.slice(from + 1, at), end: at + 1 }
    else if (mark === '<' || mark === '\n') return undefined
  }
  return undefined
}

function bare(text: string, from: number): { text: string; end: number } | undefined {
  let depth = 0
  let at = from
  const most = Math.min(text.length, from + longestAddress)
  for (; at < most; at++) {
    const mark = text[at] ?? ''
    if (mark === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) at++
    else if (mark === '(' && ++depth > deepestBrackets) return undefined
    else if (mark === ')' && depth-- === 0) break
    else if (mark <= ' ' || mark === '\x7f') break
  }
  return depth > 0 || (at === most && most < text.length)
    ? undefined
    : { text: text.slice(from, Math.min(at, text.length)), end: Math.min(at, text.length) }
}

function titleEnd(text: string, from: number): number | undefined {
  const open = text[from] ?? ''
  const close = { '"': '"', "'": "'", '(': ')' }[open]
  if (close === undefined) return undefined
  const most = Math.min(text.length, from + longestTitle)
  for (let at = from + 1; at < most; at++) {
    const mark = text[at]
    if (mark === '\\') at++
    else if (mark === close) return at + 1
    else if (mark === '(' && open === '(') return undefined
    else if (mark === '\n' && text[at + 1] === '\n') return undefined
  }
  return undefined
}
