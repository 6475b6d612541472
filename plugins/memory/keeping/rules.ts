import type { Proposal } from './checks.ts'

type Made = Omit<Proposal, 'quote' | 'about'> & { readonly about?: string }

interface Rule {
  readonly says: RegExp
  make(found: readonly string[]): Made
}

/** What a value ends at: a comma, the end of a sentence, or the beginning of another thought. */
const value = `([^.,;:!?\\n]{2,60}?)`
const end = `(?=\\s*(?:[.,;!\\n]|$)|\\s+(?:and|but|because|since|so|where|with my|now)\\b)`
const rule = (says: string, make: Rule['make']): Rule => ({
  says: new RegExp(`\\b${says}`, 'iu'),
  make,
})
const fact = (
  slot: string,
  of: (found: readonly string[]) => string,
  text: (v: string) => string,
) => ({
  make: (found: readonly string[]): Made => {
    const filled = of(found).trim()
    return { kind: 'fact', slot, value: filled, text: text(filled) }
  },
})
const first = (found: readonly string[]) => found[1] ?? ''

/** The sentences that the rules understand: about 25 forms, in English. */
const rules: readonly Rule[] = [
  rule(
    `(?:my name is|i am called|i'm called|call me) ${value}${end}`,
    fact('name', first, (v) => `is called ${v}`).make,
  ),
  rule(`i (?:no longer|do not|don't) live in ${value}(?: any ?more)?${end}`, (found) => ({
    kind: 'fact',
    slot: 'home',
    value: first(found).replace(/ any ?more$/i, ''),
    text: `does not live in ${first(found)}`,
    ends: true,
  })),
  rule(`i (?:no longer|do not|don't) work (?:at|for) ${value}(?: any ?more)?${end}`, (found) => ({
    kind: 'fact',
    slot: 'employer',
    value: first(found).replace(/ any ?more$/i, ''),
    text: `does not work for ${first(found)}`,
    ends: true,
  })),
  rule(`i no longer (?:like|love|enjoy) ${value}${end}`, (found) => ({
    kind: 'preference',
    slot: 'likes',
    value: first(found),
    text: `does not like ${first(found)}`,
    ends: true,
  })),
  rule(`i (?:now )?live in ${value}${end}`, fact('home', first, (v) => `lives in ${v}`).make),
  rule(
    `i (?:have |just |recently )*moved (?:back )?to ${value}${end}`,
    fact('home', first, (v) => `lives in ${v}`).make,
  ),
  rule(`i was born in ${value}${end}`, fact('birthplace', first, (v) => `was born in ${v}`).make),
  rule(
    `i (?:now )?work as (?:an? )?${value}(?: (?:at|for) [^.,;!?\\n]+)?${end}`,
    fact('job', first, (v) => `works as ${v}`).make,
  ),
  rule(
    `i (?:now )?work (?:at|for) ${value}${end}`,
    fact('employer', first, (v) => `works for ${v}`).make,
  ),
  rule(`my (daughter|son|child)(?:'s name is| is called| is named) ${value}${end}`, (found) => ({
    kind: 'fact',
    slot: 'child',
    value: found[2] ?? '',
    text: `${found[1]} is called ${found[2]}`,
  })),
  rule(`my (brother|sister)(?:'s name is| is called| is named) ${value}${end}`, (found) => ({
    kind: 'fact',
    slot: 'sibling',
    value: found[2] ?? '',
    text: `${found[1]} is called ${found[2]}`,
  })),
  rule(`my (wife|husband|partner)(?:'s name is| is called| is named) ${value}${end}`, (found) => ({
    kind: 'fact',
    slot: 'partner',
    value: found[2] ?? '',
    text: `${found[1]} is called ${found[2]}`,
  })),
  rule(`my (dog|cat|goat|cow)(?:'s name is| is called| is named) ${value}${end}`, (found) => ({
    kind: 'fact',
    slot: 'pet',
    value: found[2] ?? '',
    text: `${found[1]} is called ${found[2]}`,
  })),
  rule(
    `i have ((?:a|an|one|two|three|four|five|six|\\d{1,3}) (?:goats?|dogs?|cats?|cows?|chickens?|sheep))\\b`,
    fact('pet', first, (v) => `has ${v}`).make,
  ),
  rule(`i am (?:a )?(vegetarian|vegan)\\b`, fact('diet', first, (v) => `is ${v}`).make),
  rule(
    `i (?:do not|don't) eat ${value}${end}`,
    fact(
      'diet',
      (f) => `no ${first(f)}`,
      (v) => `does not eat ${v.slice(3)}`,
    ).make,
  ),
  rule(`i (?:really )?prefer ${value}${end}`, (found) => ({
    kind: 'preference',
    slot: 'prefers',
    value: first(found),
    text: `prefers ${first(found)}`,
  })),
  rule(`i (?:do not|don't) like ${value}${end}`, (found) => ({
    kind: 'preference',
    slot: 'dislikes',
    value: first(found),
    text: `does not like ${first(found)}`,
  })),
  rule(`i (?:really )?(?:like|love|enjoy) ${value}${end}`, (found) => ({
    kind: 'preference',
    slot: 'likes',
    value: first(found),
    text: `likes ${first(found)}`,
  })),
  rule(
    `i (?:now )?cook with (?:an? )?${value}${end}`,
    fact('stove', first, (v) => `cooks with ${v}`).make,
  ),
  rule(`i speak ${value}${end}`, fact('language', first, (v) => `speaks ${v}`).make),
  rule(`i (?:grow|plant) ${value}${end}`, fact('crop', first, (v) => `grows ${v}`).make),
  rule(`i drive (?:an? )?${value}${end}`, fact('car', first, (v) => `drives ${v}`).make),
  rule(
    `i (?:go to|study at) ((?:the )?[^.,;!?\\n]*(?:school|university|college)[^.,;!?\\n]*?)${end}`,
    fact('school', first, (v) => `studies at ${v}`).make,
  ),
  rule(`i will be in ${value} until (\\d{4}-\\d{2}-\\d{2})`, (found) => ({
    kind: 'plan',
    slot: 'visit',
    value: first(found),
    text: `will be in ${first(found)} until ${found[2]}`,
    until: found[2],
  })),
]

const mostPerMessage = 8

/** What the rules of the demonstration model find in a message of a person. */
export function proposalsIn(message: string): Proposal[] {
  const found: Proposal[] = []
  const taken = new Set<number>()
  for (const { says, make } of rules) {
    const all = new RegExp(says.source, `${says.flags}g`)
    for (const match of message.matchAll(all)) {
      if (found.length >= mostPerMessage) return found
      // The first rule that fits a place has it: `I no longer live in` is not `live in`.
      if ([...taken].some((at) => Math.abs(at - match.index) < 4)) continue
      taken.add(match.index)
      found.push({ about: 'me', ...make(match), quote: match[0].trim() })
    }
  }
  return found
}

/** What a sentence fills, where the rules understand it: "I live in Lusaka" fills `home`. */
export function filledBy(
  sentence: string,
): { readonly slot: string; readonly value: string } | undefined {
  const [found, another] = proposalsIn(sentence)
  if (!found || another || found.ends || found.about !== 'me') return undefined
  const { slot, value } = found
  return slot === undefined || value === undefined ? undefined : { slot, value }
}
