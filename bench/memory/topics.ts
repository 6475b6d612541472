/** In which words a question asks. */
export type Wording =
  | 'same words'
  | 'inflected'
  | 'misspelt'
  | 'Swahili or French'
  | 'other words, known slot'
  | 'other words, no slot'

/** What people tell of themselves, in which ways, and how they ask for it. */
export interface Topic {
  readonly slot: string
  readonly values: readonly string[]
  /** Ways that the rules claim to understand. */
  readonly claimed: readonly string[]
  /** Ways that only a model would understand. */
  readonly others: readonly string[]
  readonly asks: Readonly<Partial<Record<Wording, string>>>
}

const towns = 'Lusaka Ndola Kitwe Kabwe Mongu Kasama Solwezi Mansa Chinsali Mazabuka'.split(' ')
const names = 'Chanda Bwalya Mutale Thandiwe Luyando Natasha Kondwani Mapalo'.split(' ')

/** The topics; `*` stands for the value. */
export const topics: readonly Topic[] = [
  {
    slot: 'home',
    values: towns,
    claimed: ['I live in *.', 'I moved to *.', 'I am now living in *.', 'Ninaishi *.', "J'habite à *."],
    others: ['* is where you find me these days.'],
    asks: {
      'same words': 'Where do I live?',
      inflected: 'Where am I living?',
      'Swahili or French': 'Nyumbani kwangu ni wapi?',
      'other words, known slot': 'Which town is mine?',
    },
  },
  {
    slot: 'job',
    values: ['teacher', 'nurse', 'welder', 'farmer', 'tailor', 'driver', 'carpenter', 'cook'],
    claimed: ['I work as a *.', 'I am working as a *.', 'My profession is *.'],
    others: ['They pay me for being a *.', 'By day I am the * of our street.'],
    asks: {
      'same words': 'What do I work as?',
      inflected: 'What am I working as?',
      'Swahili or French': 'Quel est mon métier ?',
      'other words, known slot': 'What is my occupation?',
    },
  },
  {
    slot: 'employer',
    values: ['Zamtel', 'Shoprite', 'Zesco', 'Stanbic', 'Trade Kings', 'Lafarge'],
    claimed: ['I work for *.', 'My employer is *.', 'Je travaille chez *.'],
    others: ['My wages come from *.'],
    asks: {
      'Swahili or French': 'Mwajiri wangu ni nani?',
      'other words, known slot': 'Which company is my boss at?',
    },
  },
  {
    slot: 'stove',
    values: ['charcoal stove', 'pellet stove', 'gas burner', 'solar cooker'],
    claimed: ['I cook with a *.', 'I am cooking on a *.', 'I still cook with my *.'],
    others: ['Our meals come from a *.'],
    asks: {
      'same words': 'What do I cook with?',
      inflected: 'What was it that I am cooking with?',
      misspelt: 'What do I coook with?',
      'Swahili or French': 'Nina jiko gani?',
    },
  },
  {
    slot: 'car',
    values: ['Corolla', 'Hilux', 'Vitz', 'Ranger', 'Sienta'],
    claimed: ['I drive a *.', 'My car is a *.', 'Je conduis une *.'],
    others: ['A * takes me to town.'],
    asks: {
      'same words': 'Which car do I drive?',
      inflected: 'Which one am I driving?',
      misspelt: 'What do I drvie?',
      'other words, known slot': 'Which vehicle is mine?',
    },
  },
  {
    slot: 'likes',
    values: ['mangoes', 'football', 'drumming', 'fishing', 'chess'],
    claimed: ['I like *.', 'I really enjoy *.', 'I am fond of *.', 'Napenda *.', "J'adore *."],
    others: ['Nothing is as good as *.'],
    asks: {
      'same words': 'What do I like?',
      'Swahili or French': "Qu'est-ce que j'aime ?",
      'other words, no slot': 'What would make me happy on a free evening?',
    },
  },
  {
    slot: 'crop',
    values: ['maize', 'cassava', 'groundnuts', 'sorghum', 'soya'],
    claimed: ['I grow *.', 'I plant *.', 'I cultivate *.', 'Ninalima *.', 'Je cultive *.'],
    others: ['My acre is full of *.'],
    asks: {
      'Swahili or French': 'Que donne ma culture ?',
      'other words, known slot': 'Which crop is mine?',
      'other words, no slot': 'What stands in my field?',
    },
  },
  {
    slot: 'name',
    values: names,
    claimed: ['My name is *.', 'Call me *.', 'Naitwa *.', "Je m'appelle *."],
    others: ['Everybody shouts * when I come.'],
    asks: { 'same words': 'What is my name?', 'Swahili or French': 'Jina langu ni nani?' },
  },
  {
    slot: 'child',
    values: names,
    claimed: ['My daughter is called *.', "My son's name is *.", "Ma fille s'appelle *."],
    others: ['We gave our first-born the name *.'],
    asks: { 'other words, known slot': 'What are my children called?', 'Swahili or French': 'Mtoto wangu ni nani?' },
  },
  {
    slot: 'language',
    values: ['Bemba', 'Nyanja', 'Tonga', 'Lozi', 'Kaonde'],
    claimed: ['I speak *.', 'Nazungumza *.', 'Je parle *.'],
    others: ['At home it is all *.'],
    asks: { 'same words': 'Which language do I speak?', inflected: 'Which languages am I speaking?' },
  },
  {
    slot: 'birthplace',
    values: towns,
    claimed: ['I was born in *.', 'Nilizaliwa *.', 'Je suis né à *.'],
    others: ['My first cry was heard in *.'],
    asks: { 'same words': 'Where was I born?', 'other words, known slot': 'What is my hometown?' },
  },
  {
    slot: 'dislikes',
    values: ['onions', 'noise', 'okra', 'mosquitoes'],
    claimed: ['I hate *.', 'I do not like *.', 'Sipendi *.', "Je n'aime pas *."],
    others: ['Keep * away from me.'],
    asks: { 'other words, known slot': 'What do I dislike?' },
  },
] // prettier-ignore
