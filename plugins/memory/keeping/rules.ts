import type { Proposal } from './checks.ts'
import { forms, value } from './forms.ts'

/** What no value begins with: words that stand for something else, and words that make the sentence mean something else. */
const noBeginning = new RegExp(
  [
    '^(it|that|this|them|these|those|you|your|him|her|how|what|when|where|why|who|if|to|from|up|with|about|there|here|',
    'hard|fast|slowly|loudly|tired|old|ça|cela|ceci|toi|vous|hii|hiyo|wewe)\\b',
  ].join(''),
  'i',
)
/** States of mind that people live in, beside towns. */
const noPlace = /^(an? |fear|peace|hope|doubt|denial|pain|poverty|harmony|love|debt)/i
const behindJob = / (?:at|for|in|with|chez|à|dans|katika|kwenye) .*$/iu
const places: ReadonlySet<string> = new Set(['home', 'birthplace'])

const mostPerMessage = 8
/** How near two finds are that begin in one place, in characters. */
const samePlace = 4

/** A form with its pattern, made when a message is read first. */
interface Rule {
  readonly form: (typeof forms)[number]
  readonly says: RegExp
}
let rules: readonly Rule[] | undefined

const made = (): readonly Rule[] =>
  (rules ??= forms.map((form) => ({
    form,
    says: new RegExp(`(?<![\\p{L}\\p{N}'])${form.says}`, 'giu'),
  })))

/** What the rules of the demonstration model find in a message of a person. */
export function proposalsIn(message: string): Proposal[] {
  const found: Proposal[] = []
  const taken: number[] = []
  const text = message.replace(/[’‘]/g, "'")
  for (const { form, says } of made()) {
    for (const match of text.matchAll(says)) {
      if (found.length >= mostPerMessage) return found
      // The first rule that fits a place has it: `I no longer live in` is not `live in`.
      if (taken.some((at) => Math.abs(at - match.index) < samePlace)) continue
      const proposal = proposalOf(form, match)
      if (!proposal) continue
      taken.push(match.index)
      found.push(proposal)
    }
  }
  return found
}

function proposalOf(form: (typeof forms)[number], match: RegExpMatchArray): Proposal | undefined {
  const quote = match[0].trim()
  const said = (match.groups?.['value'] ?? '')
    .replace(/ (any ?more|now|maintenant|sasa)$/i, '')
    .trim()
  // Where somebody works stands behind what they work as.
  const filled = form.slot === 'job' ? said.replace(behindJob, '') : said
  if (filled.length < 2 || noBeginning.test(filled)) return undefined
  if (places.has(form.slot) && noPlace.test(filled)) return undefined
  const who = match.groups?.['who']?.toLowerCase() ?? ''
  const verb = match.groups?.['verb']?.toLowerCase() ?? ''
  const until = match.groups?.['until']
  const written = form.text
    ?.replace(value, filled)
    .replace('<who>', who)
    .replace('<verbs>', verb === '' ? '' : `${verb}s`)
    .replace('<until>', until ?? '')
  return {
    about: 'me',
    quote,
    kind: form.kind ?? 'fact',
    slot: form.slot,
    value: form.slot === 'diet' && form.isDenial === true ? `no ${filled}` : filled,
    // In another language than English the words of the person are the sentence.
    text: written ?? quote,
    ...(form.ends === true && { ends: true }),
    ...(until !== undefined && { until }),
  }
}

/** What a sentence fills, where the rules understand it: "I live in Lusaka" fills `home`. */
export function filledBy(
  sentence: string,
): { readonly slot: string; readonly value: string } | undefined {
  const [found, another] = proposalsIn(sentence)
  if (!found || another || found.ends || found.about !== 'me') return undefined
  const { slot, value: filled } = found
  return slot === undefined || filled === undefined ? undefined : { slot, value: filled }
}
