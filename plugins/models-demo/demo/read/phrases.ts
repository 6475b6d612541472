import { wishes, type Manner } from './manners.ts'
import { beginsARequest, stem, words } from './words.ts'

/** Words of a sentence that read like a name. */
export interface Name {
  readonly text: string
  /** What the name belongs to, by the words before it; undefined when they do not tell. */
  readonly sort: 'place' | 'user' | 'agent' | 'language' | 'thing' | Manner | undefined
  /** Set when an argument has the name. */
  used: boolean
}

/** Words that are no part of a name, even when a sentence begins with one of them and so writes it with a capital. */
const notNames = new Set(
  `i the a an in at on of for to from with and or but is are was what which who where when why how
  today tomorrow yesterday now please can could would will tell show give find get list add create
  set call make use me my your it this that there right currently again also then load calculate
  remember forget search look check compare hello hi hey next week month year days hours monday
  tuesday wednesday thursday friday saturday sunday`.split(/\s+/),
)

const capitalised = String.raw`\p{Lu}\p{Ll}\.(?=\s\p{Lu})|\p{Lu}[\p{L}\p{M}'’.-]*[\p{L}]|\p{Lu}`
const joined = String.raw`(?:\s+(?:(?:de|da|do|del|la|le|el|al|van|von|der|den|of|the)\s+){0,2}(?:${capitalised}))*`

/** How many names of one sentence the model reads. */
const mostNames = 64

/** Words before a name that tell what the name belongs to. */
const introductions = [
  ['user', '[Cc]all me|[Mm]y name is'],
  ['agent', '[Cc]all yourself|[Cc]all you|[Yy]our name is|[Yy]our name should be'],
  [
    'language',
    String.raw`(?:[Aa]nswer|[Rr]eply|[Rr]espond|[Ss]peak|[Tt]alk|[Ww]rite)(?: to me| me)? in`,
  ],
  ['thing', 'named|called|[Tt]he name is|by the name of'],
] as const

/** Words before a name that stand before anything else, too: "I am sad", "you are wrong". Only a capital makes it a name. */
const beforeCapitals = [
  ['user', "I am|I'm"],
  ['agent', '[Yy]ou are'],
] as const

/** The names in a sentence. When no name has a capital, the words after a preposition count: people write in lower case too. */
export function namesIn(sentence: string, tool: string): Name[] {
  const own = new Set(words(tool).map(stem))
  const found: { text: string; sort: Name['sort']; at: number }[] = []
  const add = (text: string, at: number, sort: Name['sort']) => {
    const trimmed = trimmedName(text, own)
    if (!trimmed || found.length === mostNames) return
    if (found.some((one) => one.text === trimmed)) return
    found.push({ text: trimmed, at, sort })
  }
  for (const [sort, before] of introductions) {
    const form = `\\b(?:${before})\\s+((?:${capitalised})${joined}|[\\p{L}\\p{M}'’-]+)`
    for (const match of sentence.matchAll(new RegExp(form, 'gu')))
      add(match[1] ?? '', match.index, sort)
  }
  for (const [sort, before] of beforeCapitals)
    for (const match of sentence.matchAll(
      new RegExp(`\\b(?:${before})\\s+((?:${capitalised})${joined})`, 'gu'),
    ))
      add(match[1] ?? '', match.index, sort)
  for (const [sort, text, form] of wishes) {
    const at = form.exec(sentence)?.index
    if (at !== undefined) found.push({ text, at, sort })
  }
  for (const match of sentence.matchAll(
    new RegExp(String.raw`\b(?:in|at|near|around)\s+((?:${capitalised})${joined})`, 'gu'),
  ))
    add(match[1] ?? '', match.index, 'place')
  for (const match of sentence.matchAll(
    new RegExp(`(?<![\\p{L}\\p{M}])(?:${capitalised})${joined}`, 'gu'),
  ))
    add(match[0], match.index, undefined)
  if (found.length === 0) {
    for (const match of sentence.matchAll(
      /\b(in|at|near|around|for|of)\s+([\p{Ll}][\p{L}\p{M}'’ -]*)/gu,
    ))
      add(
        match[2] ?? '',
        match.index,
        match[1] === 'for' || match[1] === 'of' ? undefined : 'place',
      )
  }
  return found.sort((a, b) => a.at - b.at).map(({ text, sort }) => ({ text, sort, used: false }))
}

function trimmedName(text: string, own: ReadonlySet<string>): string {
  const parts = text.split(/\s+/).filter(Boolean)
  const isName = (part = '') =>
    !notNames.has(part.toLowerCase()) && !own.has(stem(part.toLowerCase()))
  while (parts.length > 0 && !isName(parts[0])) parts.shift()
  const end = parts.findIndex(
    (part) => /^\p{Ll}/u.test(part) && !isName(part) && !/^(of|the|and)$/.test(part),
  )
  const kept = end < 0 ? parts : parts.slice(0, end)
  while (kept.length > 0 && /^(of|the|and|de|la)$/.test(kept.at(-1) ?? '')) kept.pop()
  return kept.join(' ').replace(/[.,;:!?'’-]+$/, '')
}

/** The value that a sentence gives a field by name: `type: stove`, `set the tone to formal`. */
export function explicitValue(field: string, sentence: string, asList = false): string | undefined {
  const name = words(field).join('[\\s_-]*')
  const end = asList
    ? String.raw`[.;!?]|$`
    : String.raw`[,.;!?](?=\s|$)|\s+(?:and|with|for|in|by|then|please)\s|$`
  const quoted = new RegExp(
    String.raw`\b${name}s?\s*(?::|=|\bis\b|\bto\b|\bcalled\b)?\s*["“]([^"”]+)["”]`,
    'iu',
  ).exec(sentence)
  if (quoted?.[1]) return quoted[1]
  const sure = new RegExp(
    String.raw`\b${name}s?\s*(?::|=|\bis\b|\bare\b|\bas\b|\bto\b|\bof\b|\bcalled\b|\bnamed\b|\bshould be\b)` +
      String.raw`\s*["“']?(.{1,400}?)["”']?(?=${end})`,
    'iu',
  ).exec(sentence)
  if (sure?.[1]) return sure[1].trim()
  const near = new RegExp(
    `\\b(?:${anyCase(name)})\\s+["“']?((?:${capitalised})${joined}|[\\p{L}\\p{N}][^\\s,;!?"”]*)["”']?`,
    'u',
  ).exec(sentence)
  const value = near?.[1]?.replace(/\.$/, '')
  return value && !notNames.has(value.toLowerCase()) ? value : undefined
}

/** A pattern for a word with or without a capital. The flag `i` would lose the capitals by which names are known. */
function anyCase(pattern: string): string {
  return pattern.replace(/^[a-z]/, (first) => `[${first}${first.toUpperCase()}]`)
}

/** The part of a sentence that it reports: "I like tea" in "Note that I like tea", "eat" in "Remind me to eat". */
export function reported(sentence: string): string | undefined {
  const deed = /\b(?:remind|tell|ask)\s+(?:me|us|him|her|them)\s+to\s+(.+)$/isu.exec(
    sentence.trim(),
  )
  if (deed?.[1]) return deed[1].replace(/[\s.!]+$/, '')
  return /(?::|\bthat\b|\bsaying\b|\babout\b)\s+(.+)$/isu.exec(sentence.trim())?.[1]?.trim()
}

/** The part of a sentence after the order at its beginning: "green tea" in "Search for green tea". */
export function afterOrder(sentence: string, tool: string): string | undefined {
  const small = 'a an the my please me for new can could you to i want'.split(' ')
  const order = new Set([...words(tool).map(stem), ...small])
  const parts = sentence.trim().split(/\s+/)
  if (beginsARequest(parts[0] ?? '')) parts.shift()
  const first = parts.findIndex((part) => words(part).some((word) => !order.has(stem(word))))
  return first < 0 ? undefined : parts.slice(first).join(' ')
}

/** The items of a spoken list: "a, b and c". */
export function splitList(text: string): string[] {
  return text.split(/\s*,\s*(?:and\s+)?|\s+and\s+/).filter(Boolean)
}
