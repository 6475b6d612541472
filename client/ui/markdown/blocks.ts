import { nameOf, type Block, type Item, unescaped, withoutSpaces } from './tree.ts'
import { readDestination } from './destination.ts'

/** How deep lists and quotes nest; what nests deeper is text. */
const deepest = 8
/** How many columns of a table are shown. */
const mostColumns = 100
/** How long the text of one block may be, so that nothing makes a page draw for seconds; what is longer stands as it was written. */
const longestBlock = 64 * 1024

/** The blocks of a text, and where each begins. */
export interface Parsed {
  readonly blocks: Block[]
  /** The number of the line with which each block begins. */
  readonly starts: number[]
  readonly references: Map<string, string>
}

/** Reads the blocks of a text. Takes a time that grows with the text and no faster, whatever the text is. */
export function parseBlocks(text: string): Parsed {
  const reader = new Reader()
  const lines = linesOf(text)
  const { blocks, starts } = reader.read(lines, 0)
  const bounded = blocks.map((block, nth) => {
    // Code is text as it stands, however long.
    if (block.type === 'code') return block
    const own = lines.slice(starts[nth], starts[nth + 1]).join('\n')
    return own.length > longestBlock ? { type: 'long' as const, text: own } : block
  })
  return { blocks: bounded, starts, references: reader.references }
}

const linesOf = (text: string): string[] =>
  text
    .replaceAll('\0', '\ufffd')
    .replace(/(?:\r\n|\n|\r)$/, '')
    .split(/\r\n|\n|\r/)
    .map(untabbed)

/** A line whose tabs at the beginning are spaces. */
function untabbed(line: string): string {
  const space = /^[ \t]*/.exec(line)?.[0] ?? ''
  if (!space.includes('\t')) return line
  let width = 0
  for (const mark of space) width += mark === '\t' ? 4 - (width % 4) : 1
  return ' '.repeat(width) + line.slice(space.length)
}

const indentOf = (line: string): number => {
  let at = 0
  while (line[at] === ' ') at++
  return at
}
const isBlank = (line: string): boolean => !/[^ \t]/.test(line)
const fenceStart = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$/
const headingStart = /^ {0,3}(#{1,6})(?=[ \t]|$)/
const quoteStart = /^ {0,3}> ?/
const itemStart = /^( {0,3})([-+*]|\d{1,9}[.)])(?= |\t|$)/

function isRule(line: string): boolean {
  if (!/^ {0,3}[-*_]/.test(line)) return false
  const mark = line.trimStart()[0]
  let count = 0
  for (const one of line) {
    if (one === mark) count++
    else if (one !== ' ' && one !== '\t') return false
  }
  return count >= 3
}

/** Whether a line ends a paragraph before it. A list does so only where it cannot be part of a sentence. */
function interrupts(line: string): boolean {
  if (indentOf(line) > 3) return false
  if (headingStart.test(line) || fenceStart.test(line) || quoteStart.test(line) || isRule(line))
    return true
  const item = itemStart.exec(line)
  if (!item) return false
  const [all, , mark = ''] = item
  return (mark.length === 1 || /^1[.)]$/.test(mark)) && !isBlank(line.slice(all.length))
}

/** Whether a line, without the marks of quotes and lists before it, is text of a paragraph that may go on without them. */
function isText(line: string): boolean {
  let rest = line
  for (let depth = 0; depth <= deepest; depth++) {
    if (isBlank(rest) || isRule(rest) || headingStart.test(rest) || fenceStart.test(rest))
      return false
    const mark = quoteStart.exec(rest) ?? itemStart.exec(rest)
    if (!mark) return indentOf(rest) < 4
    rest = rest.slice(mark[0].length)
  }
  return true
}

class Reader {
  readonly references = new Map<string, string>()
  /** Whether a blank line stood between two blocks of what was read last. */
  #isLoose = false

  read(lines: readonly string[], depth: number): Omit<Parsed, 'references'> {
    const blocks: Block[] = []
    const starts: number[] = []
    let isLoose = false
    let blankBefore = false
    for (let at = 0; at < lines.length;) {
      const line = lines[at] ?? ''
      if (isBlank(line)) {
        blankBefore = true
        at++
        continue
      }
      const [block, next] = this.#block(lines, at, depth)
      if (block) {
        isLoose ||= blankBefore && blocks.length > 0
        blocks.push(block)
        starts.push(at)
        blankBefore = false
      }
      at = next
    }
    this.#isLoose = isLoose
    return { blocks, starts }
  }

  #block(
    lines: readonly string[],
    at: number,
    depth: number,
  ): [block: Block | undefined, next: number] {
    const line = lines[at] ?? ''
    if (indentOf(line) > 3) return indented(lines, at)
    if (fenceStart.test(line)) return fenced(lines, at)
    if (headingStart.test(line)) return [heading(line), at + 1]
    if (isRule(line)) return [{ type: 'rule' }, at + 1]
    if (depth < deepest && quoteStart.test(line)) return this.#quote(lines, at, depth)
    if (depth < deepest && itemStart.test(line)) return this.#list(lines, at, depth)
    return table(lines, at) ?? this.#paragraph(lines, at)
  }

  #quote(lines: readonly string[], from: number, depth: number): [Block, number] {
    const own: string[] = []
    let at = from
    let isOpen = false
    let fence: string | undefined
    for (; at < lines.length; at++) {
      const line = lines[at] ?? ''
      const mark = quoteStart.exec(line)
      if (!mark && (!isOpen || isBlank(line) || interrupts(line))) break
      const rest = mark ? untabbed(line.slice(mark[0].length)) : lazy(line)
      if (mark) {
        fence = fenceAfter(fence, rest)
        isOpen = fence === undefined && isText(rest)
      }
      own.push(rest)
    }
    return [{ type: 'quote', children: this.read(own, depth + 1).blocks }, at]
  }

  #list(lines: readonly string[], from: number, depth: number): [Block, number] {
    const items: Item[] = []
    const [, , first = ''] = itemStart.exec(lines[from] ?? '') ?? []
    let isTight = true
    let at = from
    while (at < lines.length) {
      const mark = itemStart.exec(lines[at] ?? '')
      if (mark?.[2]?.at(-1) !== first.at(-1) || isRule(lines[at] ?? '')) break
      if ((mark?.[2]?.length === 1) !== (first.length === 1)) break
      const [own, next] = itemLines(lines, at)
      const { blocks } = this.read(own, depth + 1)
      if (this.#isLoose) isTight = false
      items.push(asItem(blocks))
      at = next
      let blank = at
      while (blank < lines.length && isBlank(lines[blank] ?? '')) blank++
      if (blank === at) continue
      const follows = itemStart.exec(lines[blank] ?? '')
      const isNext =
        follows?.[2]?.at(-1) === first.at(-1) &&
        (follows?.[2]?.length === 1) === (first.length === 1) &&
        !isRule(lines[blank] ?? '')
      if (!isNext) break
      isTight = false
      at = blank
    }
    const start = first.length > 1 ? Number(first.slice(0, -1)) : undefined
    return [{ type: 'list', isTight, items, ...(start !== undefined && { start }) }, at]
  }

  #paragraph(lines: readonly string[], from: number): [Block | undefined, number] {
    const own: string[] = []
    let at = from
    for (; at < lines.length; at++) {
      const line = lines[at] ?? ''
      if (isBlank(line)) break
      if (at > from) {
        const under = /^ {0,3}(=+|-+)[ \t]*$/.exec(line)
        if (under) {
          const text = this.#withoutDefinitions(own.join('\n'))
          if (text !== '')
            return [
              { type: 'heading', level: under[1]?.[0] === '=' ? 1 : 2, text: text.trim() },
              at + 1,
            ]
          if (under[1]?.[0] === '=') {
            own.push(line.trim())
            continue
          }
        }
        if (interrupts(line) || table(lines, at)) break
      }
      own.push(line.trimStart())
    }
    const text = withoutSpaces(this.#withoutDefinitions(own.join('\n')))
    return [text === '' ? undefined : { type: 'paragraph', text }, at]
  }

  /** A paragraph without the definitions of links at its beginning. */
  #withoutDefinitions(text: string): string {
    let rest = text
    while (rest.startsWith('[')) {
      const label = /^\[((?:[^\\[\]]|\\.){1,999})\]:/.exec(rest)
      if (!label || isBlank((label[1] ?? '').replaceAll('\n', ' '))) return rest
      const found = readDestination(rest, label[0].length, true)
      if (!found) return rest
      const name = nameOf(label[1] ?? '')
      if (!this.references.has(name)) this.references.set(name, found.href)
      rest = rest.slice(found.end).replace(/^[ \t]*\n?/, '')
    }
    return rest
  }
}

/** A line that goes on a paragraph of a quote or a list without their marks: it begins nothing new. */
const lazy = (line: string): string => line.trimStart().replace(/^([=-])/, '\\$1')

/** The fence under way behind a line: opened by it, closed by it, or as before. */
function fenceAfter(fence: string | undefined, line: string): string | undefined {
  const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
  if (fence === undefined) return fenceStart.test(line) ? mark : undefined
  const closes = mark?.[0] === fence[0] && (mark?.length ?? 0) >= fence.length
  return closes && isBlank(line.trimStart().slice(mark?.length)) ? undefined : fence
}

function itemLines(lines: readonly string[], from: number): [own: string[], next: number] {
  const line = lines[from] ?? ''
  const mark = itemStart.exec(line)?.[0] ?? ''
  const rest = untabbedAt(line.slice(mark.length), mark.length)
  const space = indentOf(rest)
  const isEmpty = isBlank(rest)
  const width = mark.length + (isEmpty || space > 4 ? 1 : space)
  const own = [isEmpty ? '' : rest.slice(space > 4 ? 1 : space)]
  let fence = fenceAfter(undefined, own[0] ?? '')
  let isOpen = fence === undefined && isText(own[0] ?? '')
  let blanks = 0
  let at = from + 1
  for (; at < lines.length; at++) {
    const next = lines[at] ?? ''
    if (isBlank(next)) {
      // An entry that begins with a blank line has nothing behind it.
      if (isEmpty && own.length === 1) break
      blanks++
      isOpen = false
      continue
    }
    const isInside = indentOf(next) >= width
    if (!isInside && (blanks > 0 || !isOpen || interrupts(next) || itemStart.test(next))) break
    for (; blanks > 0; blanks--) own.push('')
    const text = isInside ? next.slice(width) : lazy(next)
    own.push(text)
    if (!isInside) continue
    fence = fenceAfter(fence, text)
    isOpen = fence === undefined && (isText(text) || (isOpen && !interrupts(text)))
  }
  return [own, at - blanks]
}

function untabbedAt(text: string, column: number): string {
  const space = /^[ \t]*/.exec(text)?.[0] ?? ''
  if (!space.includes('\t')) return text
  let width = column
  for (const mark of space) width += mark === '\t' ? 4 - (width % 4) : 1
  return ' '.repeat(width - column) + text.slice(space.length)
}

function asItem(blocks: Block[]): Item {
  const [first, ...rest] = blocks
  const task = first?.type === 'paragraph' ? /^\[([ xX])\][ \t]+(?=\S)/.exec(first.text) : null
  if (!first || !task || first.type !== 'paragraph') return { children: blocks }
  const text = first.text.slice(task[0].length)
  return { task: task[1] !== ' ', children: [{ type: 'paragraph', text }, ...rest] }
}

function heading(line: string): Block {
  const mark = headingStart.exec(line)
  const text = line.slice(mark?.[0].length).trim()
  let end = text.length
  while (end > 0 && text[end - 1] === '#') end--
  const isClosed = end === 0 || /[ \t]/.test(text[end - 1] ?? '')
  return {
    type: 'heading',
    level: mark?.[1]?.length ?? 1,
    text: isClosed ? text.slice(0, end).trim() : text,
  }
}

function indented(lines: readonly string[], from: number): [Block, number] {
  const own: string[] = []
  let at = from
  let end = from
  for (; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (!isBlank(line) && indentOf(line) < 4) break
    own.push(line.slice(4))
    if (!isBlank(line)) end = at + 1
  }
  const text = own.slice(0, end - from).join('\n')
  return [{ type: 'code', language: '', text, isOpen: end === lines.length }, end]
}

function fenced(lines: readonly string[], from: number): [Block, number] {
  const [, mark = '', info = ''] = fenceStart.exec(lines[from] ?? '') ?? []
  const indent = indentOf(lines[from] ?? '')
  const own: string[] = []
  let at = from + 1
  let isOpen = true
  for (; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (indentOf(line) < 4 && fenceAfter(mark, line) === undefined) {
      isOpen = false
      at++
      break
    }
    own.push(line.slice(Math.min(indent, indentOf(line))))
  }
  const language = unescaped(info.trim()).split(/\s/, 1)[0] ?? ''
  return [{ type: 'code', language, text: own.join('\n'), isOpen }, at]
}

function table(lines: readonly string[], from: number): [Block, number] | undefined {
  const [head = '', under = ''] = [lines[from], lines[from + 1]]
  if (!head.includes('|') || !/^ {0,3}[|:-][-:| \t]*$/.test(under) || !under.includes('-'))
    return undefined
  const marks = cellsOf(under)
  const names = cellsOf(head)
  if (marks.length !== names.length || !marks.every((mark) => /^:?-+:?$/.test(mark)))
    return undefined
  const rows: string[][] = []
  let at = from + 2
  for (; at < lines.length; at++) {
    const line = lines[at] ?? ''
    if (isBlank(line) || interrupts(line)) break
    rows.push(cellsOf(line).slice(0, names.length))
  }
  const align = marks.map((mark) => {
    const [left, right] = [mark.startsWith(':'), mark.endsWith(':')]
    return left && right ? 'center' : right ? 'right' : left ? 'left' : undefined
  })
  return [{ type: 'table', align, head: names, rows }, at]
}

function cellsOf(line: string): string[] {
  const text = line.trim().replace(/^\|/, '')
  const cells: string[] = []
  let cell = ''
  for (let at = 0; at < text.length; at++) {
    const mark = text[at] ?? ''
    if (mark === '\\' && text[at + 1] === '|') {
      cell += '|'
      at++
    } else if (mark === '|') {
      cells.push(cell.trim())
      cell = ''
    } else cell += mark
  }
  if (cell.trim() !== '') cells.push(cell.trim())
  return cells.slice(0, mostColumns)
}
