import { expect, it } from 'vitest'
import { refusalOf, refusalOfGiven } from '../keeping/checks.ts'
import { tellsSecret } from '../words/secrets.ts'

/** Wordings of passwords, PINs, cards, accounts, keys, seed phrases, tokens and papers, by language. */
const secrets: Readonly<Record<string, readonly string[]>> = {
  English: [
    'my password is hunter2',
    'Password: Tr0ub4dor',
    'the wifi password is mango-tree-9',
    'my passcode is 8812',
    'passphrase = blue cow jumps',
    'my PIN is 4711',
    'PIN code 4711',
    'the PIN of my card ends with 2290',
    'my ATM pin: 9921',
    'cvv 123',
    'CVC: 987',
    'the OTP is 553201',
    'my secret word is banana',
    'secret code = 77',
    'my private key is 0xabc',
    'api key: abc-def-123',
    'my access token is zzz',
    'the seed phrase is apple banana',
    'recovery phrase: river stone',
    'SSN 078-05-1120',
    'my passport number is A1234567',
    'national id 29384756',
    'my NRC number is 123456/78/1',
    'card 4111 1111 1111 1111',
    '5500-0000-0000-0004',
    '340000000000009',
    'my IBAN is DE89 3704 0044 0532 0130 00',
    'GB82WEST12345698765432',
    '-----BEGIN PRIVATE KEY-----',
    'sk-abcdefghijklmnop1234',
    'ghp_abcdefghijklmnopqrstuvwxyz012345',
    'AKIAIOSFODNN7EXAMPLE',
    'eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.abc',
    'token xoxb-123456789012-abcdef',
    'legal winner thank year wave sausage worth useful legal winner thank yellow',
    'I log in with user bob and pass hunter2',
    'you can unlock my phone with 4711',
    'my login is bob / hunter2',
    'my pwd is hunter2',
    'p a s s w o r d is hunter2',
    'my account number is 0123456789',
    'my bank account 00123456789',
    'mobile money pin is 1234',
  ],
  Swahili: [
    'nywila yangu ni mango7',
    'neno la siri ni ndege',
    'nenosiri langu ni simba99',
    'namba ya siri ni 4711',
    'nambari ya siri: 4711',
    'PIN yangu ni 4711',
    'namba yangu ya siri ni 4711',
    'ufunguo wa siri ni abc',
    'kitambulisho changu ni 29384756',
    'namba ya kitambulisho 29384756',
    'namba ya kadi 4111111111111111',
    'namba ya pasipoti ni A1234567',
    'akaunti yangu namba ni 0123456789',
    'neno langu la siri ni ndege',
    'tokeni yangu ni abc123',
    'maneno ya siri ni moja mbili tatu',
    'namba ya NIDA 19900101-12345-00001-23',
    'msimbo wa siri ni 5521',
  ],
  French: [
    'mon mot de passe est soleil',
    'mot de passe : soleil',
    'mon code secret est 4711',
    'code PIN 4711',
    'mon code pin est 4711',
    'ma clé privée est abc',
    'clé API : abc',
    'ma clé secrète est zzz',
    'mon jeton est abc',
    'la phrase de récupération est loup renard',
    'numéro de passeport 12AB34567',
    'numéro de sécurité sociale 1 85 05 78 006 084 36',
    'numéro de carte 4111',
    'mon mdp est soleil',
    'le code de ma carte est 4711',
    'mon code confidentiel est 4711',
    'mon numéro de compte est 0123456789',
    'ma carte bancaire 5500000000000004',
    'le code du wifi est soleil12',
    'mon identifiant est bob et le mot de passe soleil',
    'numéro de carte d’identité 880692310285',
    "ma carte d'identité a le numéro 880692310285",
    'IBAN FR14 2004 1010 0505 0001 3M02 606',
    'phrase secrète: loup',
    'ｍｙ ｐａｓｓｗｏｒｄ ｉｓ ｈｕｎｔｅｒ２',
    'my pass\u200bword is hunter2',
    'my pаssword is hunter2',
    'code de récupération 884-221',
  ],
}
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
