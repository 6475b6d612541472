import { contentWords } from './text.ts'

/** What can have one value at a time, or several, and the words that people ask for it by. */
export interface Slot {
  readonly several?: true
  /** Kept when the person asks for it, and not otherwise. */
  readonly asked?: true
  readonly words: { readonly en: string; readonly sw: string; readonly fr: string }
}

const slot = (en: string, sw: string, fr: string, more: Omit<Slot, 'words'> = {}): Slot => ({
  ...more,
  words: { en, sw, fr },
})
const several = { several: true } as const

/** The slots, by name. */
export const slots: Readonly<Record<string, Slot>> = {
  name: slot('name called call', 'jina naitwa', 'nom appelle prénom'),
  home: slot(
    'live home city town village moved reside',
    'ninaishi naishi nyumbani mji kijiji',
    'habite vis maison ville village',
  ),
  birthplace: slot('born grew hometown', 'nilizaliwa kuzaliwa', 'né née naissance grandi'),
  job: slot(
    'work job profession occupation living career',
    'kazi nafanya ajira',
    'travail métier profession travaille',
  ),
  employer: slot(
    'employer company work organisation boss office',
    'mwajiri kampuni shirika',
    'employeur entreprise société bureau',
  ),
  workplace: slot('workplace office site', 'ofisi mahali kazini', 'lieu bureau chantier'),
  diet: slot(
    'diet eat food vegetarian vegan',
    'lishe kula chakula',
    'régime mange nourriture végétarien',
  ),
  partner: slot(
    'partner wife husband spouse married girlfriend boyfriend',
    'mke mume mwenzi mchumba',
    'partenaire femme mari épouse époux conjoint',
  ),
  birthday: slot('birthday born', 'siku kuzaliwa', 'anniversaire né'),
  age: slot('age old years', 'umri miaka', 'âge ans'),
  timezone: slot('timezone time zone', 'saa eneo', 'fuseau horaire'),
  main_language: slot('language speak answer', 'lugha', 'langue parle'),
  phone: slot('phone mobile handset', 'simu', 'téléphone portable'),
  stove: slot(
    'stove cook cooking cooker',
    'jiko kupika mapishi',
    'cuisinière cuisson réchaud cuisine',
  ),
  fuel: slot(
    'fuel charcoal pellets gas firewood',
    'mafuta mkaa kuni gesi',
    'combustible charbon gaz bois',
  ),
  car: slot('car drive vehicle', 'gari', 'voiture véhicule'),
  school: slot('school university study student', 'shule chuo nasoma', 'école université études'),
  team: slot('team club', 'timu klabu', 'équipe club'),
  currency: slot('currency money', 'sarafu pesa', 'monnaie devise'),
  units: slot('units metric imperial celsius fahrenheit', 'vipimo', 'unités mesures'),
  bank: slot('bank', 'benki', 'banque'),
  farm: slot('farm acres hectares land', 'shamba ekari', 'ferme hectares terrain'),
  household: slot('household family people size', 'kaya familia watu', 'foyer famille personnes'),
  commute: slot('commute travel bus', 'usafiri safari', 'trajet transport'),
  wake_up: slot('wake up early', 'amka', 'réveil lève'),
  favourite_colour: slot('favourite favorite colour color', 'rangi', 'couleur préférée'),
  child: slot(
    'child daughter son kid children',
    'mtoto watoto binti mwana',
    'enfant fille fils enfants',
    several,
  ),
  sibling: slot('brother sister sibling', 'kaka dada ndugu', 'frère sœur soeur', several),
  parent: slot('mother father parent', 'mama baba mzazi', 'mère père parent', several),
  friend: slot('friend', 'rafiki', 'ami amie', several),
  pet: slot(
    'pet dog cat goat goats animals cow chicken',
    'mnyama mbwa paka mbuzi',
    'animal chien chat chèvre',
    several,
  ),
  likes: slot('like love enjoy favourite fond', 'napenda penda', 'aime adore préfère', several),
  dislikes: slot('dislike hate', 'sipendi chukia', 'déteste aime pas', several),
  prefers: slot('prefer rather', 'napendelea pendelea', 'préfère plutôt', several),
  language: slot('language speak languages', 'lugha nazungumza', 'langue parle langues', several),
  skill: slot('skill good know able', 'ujuzi najua', 'compétence sais', several),
  hobby: slot('hobby play free time', 'burudani hobi', 'loisir passe-temps', several),
  crop: slot('grow crop plant maize', 'zao mazao panda mahindi', 'culture plante maïs', several),
  visited: slot('visited trip been travelled', 'nilitembelea safari', 'visité voyage', several),
  visit: slot('visit trip going travel', 'ziara safari', 'visite voyage', several),
  allergy: slot('allergy allergic', 'mzio', 'allergie allergique', { several: true, asked: true }),
  medicine: slot('medicine tablets medication', 'dawa', 'médicament', {
    several: true,
    asked: true,
  }),
}

const stems = new Map<string, ReadonlySet<string>>()
const nothing: ReadonlySet<string> = new Set()

/** The words by which a slot is asked for, stemmed, in all languages. */
export function wordsOfSlot(name: string): ReadonlySet<string> {
  const known = stems.get(name)
  const words = slots[name]?.words
  if (known || !words) return known ?? nothing
  const found = new Set(
    contentWords(`${name.replace('_', ' ')} ${words.en} ${words.sw} ${words.fr}`),
  )
  stems.set(name, found)
  return found
}
/** Whether there is a slot of this name. */
export const isSlot = (name: string): boolean => Object.hasOwn(slots, name)
