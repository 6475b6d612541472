import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import memory from '../index.ts'
import { refusalOf } from '../keeping/checks.ts'
import { filledBy, proposalsIn } from '../keeping/rules.ts'

/** What is kept of a message by the rules, as `slot: value`; with `-` where something ends. */
const keptOf = (message: string, earlier: readonly string[] = []) =>
  proposalsIn(message)
    .filter((one) => refusalOf(one, message, earlier) === undefined)
    .map(({ slot, value, ends }) => `${ends ? '-' : ''}${slot}: ${value}`)

const told: Readonly<Record<string, readonly string[]>> = {
  'I live in Lusaka.': ['home: Lusaka'],
  'i am now living in ndola, you know': ['home: ndola'],
  'We moved to Kitwe last week.': ['home: Kitwe'],
  'I relocated to Kabwe because of work': ['home: Kabwe'],
  'I don’t live in Lusaka anymore.': ['-home: Lusaka'],
  'I moved out of Kitwe': ['-home: Kitwe'],
  'I’m working as a nurse at the clinic': ['job: nurse'],
  'My trade is welder and I like tea.': ['job: welder', 'likes: tea'],
  'I no longer work for Zamtel': ['-employer: Zamtel'],
  'My eldest daughter is called Chipo': ['child: Chipo'],
  'My dog’s name is Simba': ['pet: Simba'],
  'I keep 12 goats': ['pet: 12 goats'],
  'I never eat pork': ['diet: no pork'],
  'I hate onions': ['dislikes: onions'],
  'I plant sorghum': ['crop: sorghum'],
  'I am fond of drumming': ['likes: drumming'],
  'I no longer like tea': ['-likes: tea'],
  'I will be in Kasama until 2026-12-24': ['visit: Kasama'],
  'My mother tongue is Bemba': ['main_language: Bemba'],
  'Ninaishi Dar es Salaam sasa.': ['home: Dar es Salaam'],
  'Nimehamia Arusha': ['home: Arusha'],
  'Siishi tena Arusha': ['-home: Arusha'],
  'Naitwa Juma': ['name: Juma'],
  'Ninafanya kazi kama mwalimu': ['job: mwalimu'],
  'Binti yangu anaitwa Neema': ['child: Neema'],
  'Sipendi samaki': ['dislikes: samaki'],
  'Sili nyama ya nguruwe': ['diet: no nyama ya nguruwe'],
  'Ninalima mahindi': ['crop: mahindi'],
  'J’habite à Lyon depuis 2019': ['home: Lyon'],
  'J’ai déménagé à Paris': ['home: Paris'],
  'Je n’habite plus à Lyon': ['-home: Lyon'],
  'Je m’appelle Luc': ['name: Luc'],
  'Je travaille comme infirmière': ['job: infirmière'],
  'Ma fille s’appelle Zoé': ['child: Zoé'],
  'Je ne mange pas de porc': ['diet: no porc'],
  'Je n’aime pas le café': ['dislikes: le café'],
  'J’aime le thé et la musique': ['likes: le thé'],
  'Je cultive du manioc': ['crop: manioc'],
}

it.each(Object.entries(told))('understands "%s"', (message, kept) => {
  expect(keptOf(message)).toEqual(kept)
})

it.each([
  'I live in fear of snakes',
  'I live in a big house',
  'I like it',
  'I love how you say it',
  'I like your answer',
  'I work as hard as I can',
  'I drive to work',
  'I grow tired',
  'I speak to my mother daily',
  'If I live in Solwezi one day',
  'Imagine I live in Rome.',
  'I would like to live in Rome',
  'Do I live in Choma?',
  'My friend says I live in Paris',
  'My brother thinks that I like beer',
  'He said: "I live in Paris now"',
  'My brother lives in Chipata',
  '> I live in Paris',
  'J’aime ça',
  'Si j’habite à Lyon un jour',
  'Kama ninge kuwa tajiri, ninaishi Dubai',
])('keeps nothing of "%s"', (message) => {
  expect(keptOf(message)).toEqual([])
})

it('says what a sentence fills, where it fills one thing', () => {
  expect(filledBy('I live in Lusaka')).toEqual({ slot: 'home', value: 'Lusaka' })
  expect(filledBy('I live in Lusaka and I like tea')).toBeUndefined()
  expect(filledBy('I no longer live in Lusaka')).toBeUndefined()
})

it('reads a long message in a time that grows with its length', () => {
  const message = `${'I have moved to '.repeat(5_000)}${'I work as a '.repeat(5_000)}`.slice(
    0,
    4_000,
  )
  expect(proposalsIn(message).length).toBeLessThanOrEqual(8)
})

it.each([
  ['the demonstration model', undefined],
  ['another model', scriptedModel([])],
])('tells in /health who reads, with %s', async (_, model) => {
  await using app = await testApp({ plugins: [memory], ...(model && { model }) })
  const { notes = [] } = (await app.get('/health')).body
  const told = notes.filter((note: { plugin: string }) => note.plugin === 'memory')
  if (model) expect(told).toEqual([])
  else
    expect(told).toMatchObject([
      { check: expect.stringContaining('rules of the demonstration model') },
    ])
})
