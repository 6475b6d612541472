/** A piece of a line of text. */
export type Inline =
  | string
  | { readonly type: 'em' | 'strong' | 'del'; readonly children: readonly Inline[] }
  | { readonly type: 'code'; readonly text: string }
  | { readonly type: 'link'; readonly href: string; readonly children: readonly Inline[] }
  | { readonly type: 'image'; readonly src: string; readonly alt: string }
  | { readonly type: 'break' }

/** One entry of a list. */
export interface Item {
  /** Whether the task is done; undefined where the entry is no task. */
  readonly task?: boolean
  readonly children: readonly Block[]
}

/** A block of a text. What stands in a line is parsed when the block is shown: a link may be defined further down. */
export type Block =
  | { readonly type: 'paragraph'; readonly text: string }
  | { readonly type: 'heading'; readonly level: number; readonly text: string }
  | {
      readonly type: 'code'
      readonly language: string
      readonly text: string
      readonly isOpen: boolean
    }
  | { readonly type: 'quote'; readonly children: readonly Block[] }
  | {
      readonly type: 'list'
      /** The number of the first entry; undefined where entries have none. */
      readonly start?: number
      readonly isTight: boolean
      readonly items: readonly Item[]
    }
  | {
      readonly type: 'table'
      readonly align: readonly ('left' | 'right' | 'center' | undefined)[]
      readonly head: readonly string[]
      readonly rows: readonly (readonly string[])[]
    }
  | { readonly type: 'rule' }
  /** A block that is too long to be read: its text as it was written. */
  | { readonly type: 'long'; readonly text: string }

/** Where the links lead that a text defines apart from where it uses them, by their names. */
export type References = ReadonlyMap<string, string>

/** The name of a reference, as both ends write it: case and spaces do not count. */
export const nameOf = (label: string): string =>
  label.trim().replace(/\s+/g, ' ').toLowerCase().toUpperCase()

const named: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  apos: "'",
  nbsp: '\u00a0',
  copy: '©',
  reg: '®',
  hellip: '…',
  mdash: '—',
  ndash: '–',
  times: '×',
  euro: '€',
  deg: '°',
  auml: 'ä',
  ouml: 'ö',
  uuml: 'ü',
  eacute: 'é',
}
const entity = /&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]{2,8}));/g

/** A text without its escapes: `\*` is `*`, `&amp;` is `&`. */
export const unescaped = (text: string): string =>
  text.replace(
    /\\([!-/:-@[-`{-~])|&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]{2,8});/g,
    (all, mark) => (mark === undefined ? decoded(all) : mark),
  )

/** What an entity stands for; the entity itself where nobody knows. */
export function decoded(text: string): string {
  return text.replace(entity, (all: string, decimal, hex, name) => {
    if (name !== undefined) return Object.hasOwn(named, name) ? (named[name] ?? all) : all
    const code = decimal === undefined ? parseInt(hex, 16) : Number(decimal)
    const isText = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff)
    return isText ? String.fromCodePoint(code) : '\ufffd'
  })
}

/** A text without the spaces at its end. An expression would look for the end from each of many spaces. */
export function withoutSpaces(text: string): string {
  let end = text.length
  while (text[end - 1] === ' ' || text[end - 1] === '\t') end--
  return text.slice(0, end)
}
