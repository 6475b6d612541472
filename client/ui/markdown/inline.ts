import { readDestination } from './destination.ts'
import { type Chain, type Delimiter, emphasized, Node, textOf } from './emphasis.ts'
import { decoded, type Inline, nameOf, type References, withoutSpaces } from './tree.ts'

/** A `[` or `![` that may begin a link or an image. */
interface Bracket {
  readonly node: Node
  readonly isImage: boolean
  /** Where what stands in the brackets begins. */
  readonly from: number
  /** How many delimiters stood before it. */
  readonly delimiters: number
}

const address = /<([a-zA-Z][a-zA-Z0-9+.-]{1,31}:[^\s<>]*)>/y
const mail = /<([\w.!#$%&'*+/=?^`{|}~-]{1,64}@[a-zA-Z0-9-]{1,63}(?:\.[a-zA-Z0-9-]{1,63}){0,10})>/y
const bareAddress = /(?:https?:\/\/|www\.)[^\s<]{1,2000}/y
const plain = /[^\\`*_~[\]!<&\nhw]+/y
const longestLabel = 999
/** How many brackets wait for their end. The rest is text. */
const mostBrackets = 5_000

/** Reads what stands in lines. Takes a time that grows with the text and no faster, whatever the text is. */
export function parseInline(text: string, references: References): readonly Inline[] {
  return new InlineReader(text, references).read()
}

class InlineReader {
  readonly #text: string
  readonly #references: References
  readonly #chain: Chain = { head: new Node('') }
  #tail = this.#chain.head
  #delimiters: Delimiter[] = []
  #brackets: Bracket[] = []
  /** Brackets below this one would make links around a link. */
  #inactive = 0
  /** Where the runs of backticks stand, by their length, the last first. */
  #ticks: Map<number, number[]> | undefined
  #at = 0

  constructor(text: string, references: References) {
    this.#text = text
    this.#references = references
  }

  read(): readonly Inline[] {
    const text = this.#text
    while (this.#at < text.length) {
      const rest = this.#match(plain)
      if (rest) this.#add(rest[0])
      else this.#mark(text[this.#at] ?? '')
    }
    emphasized(this.#delimiters, 0)
    return textOf(this.#chain)
  }

  #mark(mark: string): void {
    const text = this.#text
    switch (mark) {
      case '\\':
        return this.#escape()
      case '`':
        return this.#code()
      case '*':
      case '_':
      case '~':
        return this.#delimiter(mark)
      case '[':
        return this.#open(false, 1)
      case '!':
        return text[this.#at + 1] === '[' ? this.#open(true, 2) : this.#take('!', 1)
      case ']':
        return this.#close()
      case '<':
        return this.#angle()
      case '\n':
        return this.#newline()
      case '&': {
        const found = /&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]{2,8});/y
        const match = this.#match(found)
        return match ? void this.#add(decoded(match[0])) : this.#take('&', 1)
      }
      default:
        return this.#bare(mark)
    }
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text) ?? undefined
    if (found) this.#at = pattern.lastIndex
    return found
  }

  #add(value: Inline): Node {
    const node = new Node(value)
    node.after(this.#tail)
    this.#tail = node
    return node
  }

  #take(value: Inline, length: number): void {
    this.#add(value)
    this.#at += length
  }

  #escape(): void {
    const next = this.#text[this.#at + 1] ?? ''
    if (next === '\n') {
      this.#take({ type: 'break' }, 2)
      this.#skipSpace()
    } else if (/[!-/:-@[-`{-~]/.test(next)) this.#take(next, 2)
    else this.#take('\\', 1)
  }

  #newline(): void {
    const before = this.#tail.value
    const isHard = typeof before === 'string' && before.endsWith('  ')
    if (typeof before === 'string') this.#tail.value = withoutSpaces(before)
    this.#take(isHard ? { type: 'break' } : '\n', 1)
    this.#skipSpace()
  }

  #skipSpace(): void {
    while (this.#text[this.#at] === ' ' || this.#text[this.#at] === '\t') this.#at++
  }

  #code(): void {
    const text = this.#text
    let end = this.#at
    while (text[end] === '`') end++
    const length = end - this.#at
    const places = this.#ticksOf(length)
    while (places.length > 0 && (places.at(-1) ?? 0) < end) places.pop()
    const close = places.at(-1)
    if (close === undefined) return this.#take(text.slice(this.#at, end), length)
    const inside = text.slice(end, close).replaceAll('\n', ' ')
    const isPadded = inside.startsWith(' ') && inside.endsWith(' ') && inside.trim() !== ''
    this.#add({ type: 'code', text: isPadded ? inside.slice(1, -1) : inside })
    this.#at = close + length
  }

  #ticksOf(length: number): number[] {
    if (!this.#ticks) {
      this.#ticks = new Map()
      for (const { 0: run, index } of this.#text.matchAll(/`+/g)) {
        const places = this.#ticks.get(run.length)
        if (places) places.push(index)
        else this.#ticks.set(run.length, [index])
      }
      for (const places of this.#ticks.values()) places.reverse()
    }
    return this.#ticks.get(length) ?? []
  }

  #delimiter(mark: '*' | '_' | '~'): void {
    const text = this.#text
    const from = this.#at
    let end = from
    while (text[end] === mark) end++
    const length = end - from
    const before = from === 0 ? ' ' : charBefore(text, from)
    const after = end >= text.length ? ' ' : String.fromCodePoint(text.codePointAt(end) ?? 32)
    const [spaceBefore, spaceAfter] = [/\s/u.test(before), /\s/u.test(after)]
    const [markBefore, markAfter] = [/[\p{P}\p{S}]/u.test(before), /[\p{P}\p{S}]/u.test(after)]
    const isLeft = !spaceAfter && (!markAfter || spaceBefore || markBefore)
    const isRight = !spaceBefore && (!markBefore || spaceAfter || markAfter)
    const isWord = mark === '_'
    const node = this.#add(text.slice(from, end))
    this.#at = end
    if (mark === '~' && length > 2) return
    const opens = isLeft && (!isWord || !isRight || markBefore)
    const closes = isRight && (!isWord || !isLeft || markAfter)
    if (opens || closes) this.#delimiters.push({ node, mark, length, left: length, opens, closes })
  }

  #open(isImage: boolean, length: number): void {
    const node = this.#add(isImage ? '![' : '[')
    this.#at += length
    if (this.#brackets.length < mostBrackets)
      this.#brackets.push({
        node,
        isImage,
        from: this.#at,
        delimiters: this.#delimiters.length,
      })
  }

  #close(): void {
    const bracket = this.#brackets.pop()
    const isActive = bracket && (bracket.isImage || this.#brackets.length >= this.#inactive)
    this.#inactive = Math.min(this.#inactive, this.#brackets.length)
    const found = isActive ? this.#destination(bracket) : undefined
    if (!bracket || !found) return this.#take(']', 1)
    emphasized(this.#delimiters, bracket.delimiters)
    this.#delimiters.length = bracket.delimiters
    const children = bracket.node.rest()
    this.#tail = bracket.node
    const { href } = found
    bracket.node.value = bracket.isImage
      ? { type: 'image', src: href, alt: wordsOf(children) }
      : { type: 'link', href, children }
    if (!bracket.isImage) this.#inactive = this.#brackets.length
    this.#at = found.end
  }

  #destination(bracket: Bracket): { href: string; end: number } | undefined {
    const text = this.#text
    const behind = this.#at + 1
    if (text[behind] === '(') {
      const found = readDestination(text, behind + 1)
      if (found) return found
    }
    const own = text.slice(bracket.from, Math.min(this.#at, bracket.from + longestLabel + 1))
    const label = text[behind] === '[' ? labelAt(text, behind) : undefined
    const name = label?.trim() ? label : own
    if (name.length > longestLabel || (name === own && /(?<!\\)[[\]]/.test(own))) return undefined
    const href = this.#references.get(nameOf(name))
    if (href === undefined) return undefined
    return { href, end: label === undefined ? behind : behind + label.length + 2 }
  }

  #angle(): void {
    const found = this.#match(address)
    if (found?.[1] !== undefined) {
      this.#add({ type: 'link', href: found[1], children: [found[1]] })
      return
    }
    const to = this.#match(mail)?.[1]
    if (to === undefined) return this.#take('<', 1)
    this.#add({ type: 'link', href: `mailto:${to}`, children: [to] })
  }

  /** An address that stands in a sentence without any marks. */
  #bare(mark: string): void {
    const before = this.#at === 0 ? ' ' : (this.#text[this.#at - 1] ?? ' ')
    const found = /[\s*_~("'[]/.test(before) ? this.#match(bareAddress)?.[0] : undefined
    if (found === undefined) return this.#take(mark, 1)
    const own = withoutEnd(found)
    this.#at -= found.length - own.length
    const hasHost = /^(?:https?:\/\/|www\.)[^\s/?#]*[\p{L}\p{N}]/u.test(own)
    if (!hasHost) return void this.#add(own)
    const href = own.startsWith('www.') ? `http://${own}` : own
    this.#add({ type: 'link', href, children: [own] })
  }
}

function charBefore(text: string, at: number): string {
  const isPair = /[\udc00-\udfff]/.test(text[at - 1] ?? '')
  return String.fromCodePoint(text.codePointAt(isPair ? at - 2 : at - 1) ?? 32)
}

function labelAt(text: string, at: number): string | undefined {
  const most = Math.min(text.length, at + longestLabel + 2)
  for (let end = at + 1; end < most; end++) {
    const mark = text[end]
    if (mark === '\\') end++
    else if (mark === '[') return undefined
    else if (mark === ']') return text.slice(at + 1, end)
  }
  return undefined
}

/** An address without the marks of the sentence behind it. */
function withoutEnd(found: string): string {
  let end = found.length
  let open = 0
  for (const mark of found) open += mark === '(' ? 1 : mark === ')' ? -1 : 0
  for (; end > 0; end--) {
    const mark = found[end - 1] ?? ''
    if (mark === ')' && open < 0) open++
    else if (!/[?!.,:*_~'";]/.test(mark)) break
  }
  return found.slice(0, end)
}

/** What is said in a line, without its form. */
export function wordsOf(children: readonly Inline[]): string {
  let words = ''
  for (const child of children) {
    if (typeof child === 'string') words += child
    else if (child.type === 'code') words += child.text
    else if (child.type === 'image') words += child.alt
    else if (child.type === 'break') words += '\n'
    else words += wordsOf(child.children)
  }
  return words
}
