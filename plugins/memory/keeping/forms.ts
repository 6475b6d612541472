import type { Proposal } from './checks.ts'

/** A form in which people tell something of themselves, and what it tells. */
interface Form {
  /** A pattern with `<value>`; `who`, `verb` and `until` are other groups that the sentence may use. */
  readonly says: string
  readonly slot: string
  /** The sentence that is kept; without it the person's own words are kept. */
  readonly text?: string
  readonly kind?: Proposal['kind']
  readonly ends?: true
  /** What is said with a no: the value begins with one. */
  readonly isDenial?: true
}

/** Stands for what fills the slot, in the sentence that is kept. */
export const value = '<value>'
/** What a value ends at: a comma, the end of a sentence, or the beginning of another thought. */
const after = [
  'and|but|because|since|so|where|which|with my|now|these days|last|this|next|yesterday|today|recently|already',
  'for (?:\\d|an? |many |some |the )|in (?:19|20)\\d\\d',
  'et|mais|car|parce|depuis|avec|maintenant',
  'na|lakini|kwa sababu|sasa|tangu',
].join('|')
const end = `(?=\\s*(?:[.,;:!?\\n"”]|$)|\\s+(?:${after})\\b)`
const filler = '(?<value>[^.,;:!?\\n"“”]{2,60}?)' + end
const form = (
  says: string,
  slot: string,
  text?: string,
  more: Pick<Form, 'kind' | 'ends' | 'isDenial'> = {},
): Form => ({
  says: says.replace(/(?<!\(\?)<value>/, filler),
  slot,
  ...(text !== undefined && { text }),
  ...more,
})

const now = '(?:now |currently |still |also |really |just )*'
const no = "(?:no longer|do not|don't|am not|'m not) "
const more = '(?: any ?more)?'
const preference = { kind: 'preference' } as const
const ended = { ends: true } as const
const whose = (who: string) =>
  `my (?:(?:eldest|oldest|youngest|little|big|older|younger) )?(?<who>${who})(?:'s name is| is called| is named) ${value}`

const count = '(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|\\d{1,3})'
const animals = '(?:goats?|dogs?|cats?|cows?|chickens?|hens?|sheep|pigs?|ducks?|donkeys?)'
const schools = '(?:the )?[^.,;!?\\n]*(?:school|university|college)[^.,;!?\\n]*?'
const visit = 'i will be in (?<value>[^.,;:!?\\n]{2,60}?) until (?<until>\\d{4}-\\d{2}-\\d{2})'

const english: readonly Form[] = [
  form(`(?:my name is|i am called|i'm called|call me|people call me) ${value}`, 'name', 'is called <value>'),
  form(`i ${no}(?:live|stay|living|staying) in ${value}${more}`, 'home', 'does not live in <value>', ended),
  form(`i (?:have )?moved (?:out of|away from) ${value}`, 'home', 'moved out of <value>', ended),
  form(`i ${no}(?:work|working) (?:at|for) ${value}${more}`, 'employer', 'does not work for <value>', ended),
  form(`i ${no}(?:like|love|enjoy) ${value} any ?more`, 'likes', 'does not like <value>', { ...preference, ...ended }),
  form(`i no longer (?:like|love|enjoy) ${value}`, 'likes', 'does not like <value>', { ...preference, ...ended }),
  form(`i ${now}(?:live|stay|reside) (?:in|at|near) ${value}`, 'home', 'lives in <value>'),
  form(`(?:i am|i'm) ${now}(?:living|staying) (?:in|at|near) ${value}`, 'home', 'lives in <value>'),
  form(`(?:i|we)(?: have|'ve)? ${now}(?:recently )?moved (?:back )?to ${value}`, 'home', 'lives in <value>'),
  form(`(?:i|we)(?: have|'ve)? ${now}relocated (?:back )?to ${value}`, 'home', 'relocated to <value>'),
  form(`my home is in ${value}`, 'home', 'has a home in <value>'),
  form(`i was born in ${value}`, 'birthplace', 'was born in <value>'),
  form(`(?:i ${now}work|(?:i am|i'm) ${now}working) as (?:an? )?${value}`, 'job', 'works as <value>'),
  form(`my (?:job|profession|occupation|trade) is (?:that of )?(?:an? )?${value}`, 'job', 'works as <value>'),
  form(`(?:i ${now}work|(?:i am|i'm) ${now}working) (?:at|for) ${value}`, 'employer', 'works for <value>'),
  form(`my employer is ${value}`, 'employer', 'has the employer <value>'),
  form(whose('daughter|son|child'), 'child', '<who> is called <value>'),
  form(whose('brother|sister'), 'sibling', '<who> is called <value>'),
  form(whose('mother|father'), 'parent', '<who> is called <value>'),
  form(whose('wife|husband|partner|fiancée?'), 'partner', '<who> is called <value>'),
  form(whose('dog|cat|goat|cow|horse|donkey'), 'pet', '<who> is called <value>'),
  form(`i (?:have|own|keep) (?<value>${count} ${animals})\\b`, 'pet', 'has <value>'),
  form("(?:i am|i'm) (?:a )?(?<value>vegetarian|vegan)\\b", 'diet', 'is <value>'),
  form(`i (?:do not|don't|never) eat ${value}`, 'diet', 'does not eat <value>', { isDenial: true }),
  form(`(?:i ${now}|i'd rather )prefer ${value}`, 'prefers', 'prefers <value>', preference),
  form(`i (?:do not|don't) (?:like|enjoy) ${value}`, 'dislikes', 'does not like <value>', preference),
  form(`i ${now}(?<verb>hate|dislike) ${value}`, 'dislikes', '<verbs> <value>', preference),
  form(`i ${now}(?:like|love|enjoy) ${value}`, 'likes', 'likes <value>', preference),
  form(`(?:i am|i'm) ${now}fond of ${value}`, 'likes', 'is fond of <value>', preference),
  form(`(?:i ${now}cook|(?:i am|i'm) ${now}cooking) (?:with|on) (?:an? |my )?${value}`, 'stove', 'cooks with <value>'),
  form(`i ${now}speak ${value}`, 'language', 'speaks <value>'),
  form(`my (?:mother tongue|first language|native language) is ${value}`, 'main_language'),
  form(`i ${now}(?<verb>grow|plant|cultivate|farm) ${value}`, 'crop', '<verbs> <value>'),
  form(`i ${now}drive (?:an? )?${value}`, 'car', 'drives <value>'),
  form(`my car is (?:an? )?${value}`, 'car', 'has the car <value>'),
  form(`i (?:go to|study at|attend) (?<value>${schools})${end}`, 'school', 'studies at <value>'),
  form(visit, 'visit', 'will be in <value> until <until>', { kind: 'plan' }),
  form(`my birthday is (?:on )?${value}`, 'birthday', 'has the birthday <value>'),
] // prettier-ignore

const swahili: readonly Form[] = [
  form(`(?:jina langu ni|mimi naitwa|ninaitwa|naitwa) ${value}`, 'name'),
  form(`(?:siishi|sikai|sitakaa) tena (?:katika |huko |mjini )?${value}`, 'home', undefined, ended),
  form(`sifanyi kazi tena (?:katika|kwa|na) ${value}`, 'employer', undefined, ended),
  form(`sipendi tena ${value}`, 'likes', undefined, { ...preference, ...ended }),
  form(`(?:ninaishi|naishi|ninakaa|nakaa) (?:sasa )?(?:katika |huko |mjini )?${value}`, 'home'),
  form(`(?:nimehamia|nilihamia) (?:mjini |huko )?${value}`, 'home'),
  form(`nilizaliwa (?:katika |huko |mjini )?${value}`, 'birthplace'),
  form(`(?:ninafanya|nafanya) kazi (?:kama|ya) ${value}`, 'job'),
  form(`(?:ninafanya|nafanya) kazi (?:katika|kwa|kwenye) ${value}`, 'employer'),
  form(`(?:binti|mwana|mtoto) w?y?angu anaitwa ${value}`, 'child'),
  form(`(?:kaka|dada|ndugu) w?y?angu anaitwa ${value}`, 'sibling'),
  form(`(?:mama|baba) w?y?angu anaitwa ${value}`, 'parent'),
  form(`(?:mke|mume) wangu anaitwa ${value}`, 'partner'),
  form(`(?:mbwa|paka|mbuzi|ng'ombe) wangu anaitwa ${value}`, 'pet'),
  form(`(?:ninapendelea|napendelea) ${value}`, 'prefers', undefined, preference),
  form(`(?:ninapenda|napenda) (?:sana )?${value}`, 'likes', undefined, preference),
  form(`sipendi ${value}`, 'dislikes', undefined, preference),
  form(`sili ${value}`, 'diet', undefined, { isDenial: true }),
  form(`(?:ninapika|napika) (?:kwa|kwenye) ${value}`, 'stove'),
  form(`(?:ninaendesha|naendesha) ${value}`, 'car'),
  form(`(?:ninalima|nalima|ninapanda|napanda) ${value}`, 'crop'),
  form(`(?:ninazungumza|nazungumza|ninaongea|naongea) ${value}`, 'language'),
]

const at = "(?:à |a |en |au |aux |dans |près de |chez |d')"
const french: readonly Form[] = [
  form(`(?:je m'appelle|mon nom est|on m'appelle) ${value}`, 'name'),
  form(`je (?:n'habite|ne vis|ne réside|ne reside) plus ${at}${value}`, 'home', undefined, ended),
  form(`je ne travaille plus (?:chez|pour|à) ${value}`, 'employer', undefined, ended),
  form(`je n'(?:aime|adore) plus ${value}`, 'likes', undefined, { ...preference, ...ended }),
  form(
    `(?:j'habite|je vis|je réside|je reside|je loge) (?:maintenant |actuellement |désormais )?${at}${value}`,
    'home',
  ),
  form(
    `(?:j'ai déménagé|j'ai demenage|je me suis installée?|nous avons déménagé) ${at}${value}`,
    'home',
  ),
  form(`je suis n(?:é|ée|e|ee) ${at}${value}`, 'birthplace'),
  form(
    `(?:je travaille comme|je suis employée? comme|mon métier est|mon metier est) ${value}`,
    'job',
  ),
  form(`je travaille (?:chez|pour|à) ${value}`, 'employer'),
  form(`(?:ma fille|mon fils|mon enfant) s'appelle ${value}`, 'child'),
  form(`(?:mon frère|mon frere|ma sœur|ma soeur) s'appelle ${value}`, 'sibling'),
  form(`(?:ma mère|ma mere|mon père|mon pere) s'appelle ${value}`, 'parent'),
  form(
    `(?:ma femme|mon mari|mon épouse|mon époux|ma compagne|mon compagnon) s'appelle ${value}`,
    'partner',
  ),
  form(`(?:mon chien|mon chat|ma chèvre|ma chevre) s'appelle ${value}`, 'pet'),
  form('je suis (?<value>végétarien(?:ne)?|vegetarien(?:ne)?|végane|vegane)(?!\\p{L})', 'diet'),
  form(`je ne mange (?:pas|jamais) (?:de |d')?${value}`, 'diet', undefined, { isDenial: true }),
  form(`je préfère ${value}`, 'prefers', undefined, preference),
  form(`je prefere ${value}`, 'prefers', undefined, preference),
  form(`je n'aime pas ${value}`, 'dislikes', undefined, preference),
  form(`je (?:déteste|deteste) ${value}`, 'dislikes', undefined, preference),
  form(`(?:j'aime|j'adore) (?:bien |beaucoup )?${value}`, 'likes', undefined, preference),
  form(`je cuisine (?:avec |sur |au |à la |à l')(?:une? |mon |ma )?${value}`, 'stove'),
  form(`je conduis (?:une? )?${value}`, 'car'),
  form(`je cultive (?:du |de la |des |le |la |les |de l')?${value}`, 'crop'),
  form(`je parle (?:le |l')?${value}`, 'language'),
]

/** The forms that the rules of the demonstration model understand, in three languages; the first that fits a place has it. */
export const forms: readonly Form[] = [...english, ...swahili, ...french]
