/** What of its manners a person wishes of an agent: words that stand for a wish, as a name stands for somebody. */
export const manners = ['length', 'formality', 'tone'] as const
export type Manner = (typeof manners)[number]
export const isManner = (sort: string | undefined): sort is Manner =>
  manners.some((one) => one === sort)

const talk = String.raw`\b(?:be|speak|talk|write|answer|reply|sound)(?: to me| with me)?(?: a (?:bit|little))?`

/** How somebody wants to be answered: "shorter answers, please", "be brief", "speak more formally". */
export const wishes: readonly (readonly [Manner, text: string, form: RegExp])[] = [
  ['length', 'short', /\b(?:short(?:er)?|brief(?:er)?|concise) (?:answers|replies|messages)\b/iu],
  [
    'length',
    'short',
    /\b(?:be|keep (?:it|your answers)) (?:\w+ and )?(?:more )?(?:short(?:er)?|brief(?:er)?|concise)\b/iu,
  ],
  ['length', 'long', /\b(?:long(?:er)?|more detailed) (?:answers|replies|messages)\b/iu],
  ['length', 'long', /\bbe more (?:detailed|verbose)\b/iu],
  ['formality', 'formal', new RegExp(`${talk} (?:more )?formal(?:ly)?\\b`, 'iu')],
  [
    'formality',
    'casual',
    new RegExp(`${talk} (?:less formal|(?:more )?(?:casual|informal))(?:ly)?\\b`, 'iu'),
  ],
  ...['friendly', 'warm', 'polite', 'serious', 'cheerful'].map(
    (tone) => ['tone', tone, new RegExp(`${talk} (?:more )?${tone}(?:ly)?\\b`, 'iu')] as const,
  ),
]
