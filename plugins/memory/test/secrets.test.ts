import { expect, it } from 'vitest'
import { refusalOf, refusalOfGiven } from '../keeping/checks.ts'
import { tellsSecret } from '../words/secrets.ts'
import { secrets } from './fixtures/wordings.ts'

const harmless = [
  'I forgot my password',
  'lives in Lusaka',
  'is called Anna Maria',
  'has 12 goats and 3 cows',
  'was born in 1990',
  'likes to pin notes on the wall',
  'works as a token collector',
  'speaks English and French',
  'my phone number is 0977123456',
  'mimi naitwa Juma',
  'ninaishi Dar es Salaam',
  'nina watoto 3',
  'je m’appelle Luc',
  'j’habite à Lyon depuis 2019',
  'a changé de mot de passe',
  'grows maize on 3 hectares',
  'nimesahau nywila',
  'prefers cards over cash',
  'has a dog and a cat and a bird and a horse and a pig and goats too',
  'moved to Kitwe in 2024',
  'the key is under the mat',
  'drives a Toyota Corolla 2004',
  'my sister is my secret weapon',
]

const cases = Object.entries(secrets).flatMap(([language, wordings]) =>
  wordings.map((wording) => [language, wording] as const),
)

it.each(cases)('finds the secret in %s: %s', (_, wording) => {
  expect(tellsSecret(wording)).toBe(true)
  const given = { about: 'me', slot: null, value: '', quote: '' }
  const by = [
    refusalOfGiven({ ...given, text: wording }, 'ask'),
    refusalOfGiven({ ...given, text: 'tells something', quote: wording }, 'ask'),
  ]
  expect(by).toEqual(['secret', 'secret'])
  const proposal = { kind: 'fact', about: 'me', quote: wording, text: wording } as const
  // One word, or a few letters, are no evidence before anybody looks what they tell.
  const isEvidence = wording.includes(' ') && wording.length >= 8
  expect(refusalOf(proposal, wording, [])).toBe(isEvidence ? 'secret' : 'no-evidence')
})

it.each(harmless)('lets a harmless sentence through: %s', (sentence) => {
  expect(tellsSecret(sentence)).toBe(false)
})
