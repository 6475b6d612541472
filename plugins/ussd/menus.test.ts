import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { type Catalogues, common, languages } from './screens/catalogue.ts'
import { pagesOf } from './screens/draw.ts'
import { fits, measure } from './screens/gsm7.ts'
import ussd, { defineMenu, type Menu } from './index.ts'
import { accountTexts } from './menus/account/texts.ts'
import { askTexts } from './menus/ask.ts'
import { knowMore } from './menus/know-more.ts'
import { Phone } from './phone.ts'

const env = { USSD_RATE_LIMIT_PER_MINUTE: '1000000' }
const words = { title: 'Extra', text: 'Some words.', ask: 'Say:' }
const texts = (changes: Partial<typeof words>) => ({
  en: { ...words, ...changes },
  sw: words,
  fr: words,
})
const adding = (...menus: Menu[]) =>
  menus.map((menu, n) =>
    definePlugin({
      name: `adding-${n}`,
      summary: 'Adds a menu.',
      visibility: 'silent',
      requires: [ussd],
      setup: ({ plugins }) => plugins.ussd.addMenu(menu),
    }),
  )
const starting = (...menus: Menu[]) => testApp({ plugins: [ussd, ...adding(...menus)], env })
const one = (
  name: string,
  changes: Partial<typeof words> = {},
  more: Partial<Menu['screens']['home']> = {},
) =>
  defineMenu({
    name,
    title: 'title',
    start: 'home',
    texts: texts(changes),
    screens: { home: { text: 'text', ...more } },
  })

describe('a catalogue', () => {
  const catalogues: Record<string, Catalogues> = {
    common,
    account: accountTexts,
    ask: askTexts,
    'know-more': knowMore.texts,
  }
  const placesOf = (sentence = '') => (sentence.match(/\{\w+\}/g) ?? []).sort()
  /** The sentences that are the same in several languages, because they consist of a placeholder only. */
  const shared = new Set(['account.balanceText', 'ask.answer'])

  it('has every sentence in every language, with the same places, in letters that phones have', () => {
    for (const [name, catalogue] of Object.entries(catalogues))
      for (const language of languages) {
        expect(Object.keys(catalogue[language]).sort(), `${language} ${name}`).toEqual(
          Object.keys(catalogue.en).sort(),
        )
        for (const [key, sentence] of Object.entries(catalogue[language])) {
          const where = `${language} ${name}.${key}: ${sentence}`
          expect(placesOf(sentence), where).toEqual(placesOf(catalogue.en[key]))
          expect(measure(sentence).unit, where).toBe('septets')
          expect(sentence.trim(), where).not.toBe('')
          if (language !== 'en' && !shared.has(`${name}.${key}`))
            expect(sentence, where).not.toBe(catalogue.en[key])
        }
      }
  })
})

describe('a screen', () => {
  it('is measured in septets, where some characters count two', () => {
    expect(measure('aé@\n')).toEqual({ size: 4, most: 182, unit: 'septets' })
    expect(measure('^{}\\[]~|€')).toEqual({ size: 18, most: 182, unit: 'septets' })
    expect(measure('ç')).toEqual({ size: 1, most: 80, unit: 'characters' })
    expect([fits('x'.repeat(182)), fits('x'.repeat(183))]).toEqual([true, false])
    expect([fits('€'.repeat(91)), fits('€'.repeat(92))]).toEqual([true, false])
    expect([fits('ç'.repeat(80)), fits('ç'.repeat(81))]).toEqual([true, false])
    expect([fits('💧'.repeat(40)), fits('💧'.repeat(41))]).toEqual([true, false])
  })

  it('that cannot fit stops the boot with its name, language and septet count', async () => {
    // "0. Back" and its line break take eight septets.
    await using fitting = await starting(one('roomy', { text: 'x'.repeat(174) }))
    expect(fitting.report.plugins.find(({ name }) => name === 'ussd')?.state).toBe('loaded')
    await expect(starting(one('tight', { text: 'x'.repeat(175) }))).rejects.toThrow(
      /"tight\.home" takes 183 septets, and 182 fit, in "en"/,
    )
    await expect(starting(one('coded', { text: 'ç'.repeat(73) }))).rejects.toThrow(
      /"coded\.home" takes 81 characters, and 80 fit, in "en"/,
    )
  })

  it('may run over several pages, each of which fits, and loses no word', async () => {
    const text = Array.from({ length: 80 }, (_, n) => `word${n}`).join(' ')
    await using app = await starting(one('long', { text }, { long: true }))
    const phone = new Phone(
      '+254711000111',
      async (request) => (await app.post('/api/ussd', request)).body,
    )
    await phone.dial()
    let page = await phone.type('4')
    let read = ''
    for (let pages = 0; pages < 20; pages++) {
      expect(fits(page.slice(4))).toBe(true)
      read += ` ${page.slice(4).replace(/\n(98\. More|0\. Back)/g, '')}`
      if (!page.includes('98. More')) break
      page = await phone.type('98')
    }
    expect(read.trim()).toBe(text)
    expect(await phone.type('0')).toMatch(/^CON Welcome/)
  })

  it('pages a word that is longer than a screen, and letters outside the alphabet', () => {
    for (const text of ['x'.repeat(500), 'ç'.repeat(300), 'a💧'.repeat(200)]) {
      const pages = pagesOf({ text, lines: [], foot: ['0. Back'], more: '98. More' })
      for (const page of pages) expect(fits(page)).toBe(true)
      expect(pages.join('').replace(/\n(98\. More|0\. Back)|[ \n]/g, '')).toBe(text)
    }
  })
})

describe('a menu', () => {
  it('of another plugin takes the next free number, in load order', async () => {
    await using app = await starting(
      one('first', { title: 'First' }),
      one('second', { title: 'Second' }),
    )
    const request = { sessionId: 'a', serviceCode: '*1#', phoneNumber: '+254711000111', text: '' }
    expect((await app.post('/api/ussd', request)).body).toBe(
      'CON Welcome to the oracle\n1. Know more\n2. Account\n3. Ask the oracle\n4. First\n5. Second\n*. Exit',
    )
    const into = await app.post('/api/ussd', { ...request, text: '5' })
    expect(into.body).toBe('CON Some words.\n0. Back')
    expect((await app.get('/api/ussd/debug/a')).body.debugInfo.context.message).toBe(
      'Some words.\n0. Back',
    )
  })

  it('of a plugin that is ready late joins the welcome screen then', async () => {
    let add = () => {}
    const late = definePlugin({
      name: 'late',
      summary: 'Adds a menu when it is ready.',
      visibility: 'silent',
      requires: [ussd],
      setup: ({ plugins }) =>
        void (add = () => plugins.ussd.addMenu(one('late', { title: 'Late' }))),
    })
    await using app = await testApp({ plugins: [ussd, late], env })
    const phone = new Phone(
      '+254711000111',
      async (request) => (await app.post('/api/ussd', request)).body,
    )
    expect(await phone.dial()).not.toContain('4.')
    add()
    expect(await phone.dial()).toContain('\n4. Late\n')
  })

  it('stops the boot when it is malformed, with what is wrong', async () => {
    const faults: [Menu, RegExp][] = [
      [one('Not a name'), /not lower-case words/],
      [one('account'), /another menu has this name/],
      [{ ...one('lost'), start: 'nowhere' }, /starts at the screen "nowhere"/],
      [one('mute', {}, { text: 'missing' }), /"missing" of the screen "home" has no words in "en"/],
      [one('wild', {}, { options: { '1': 'nowhere' } }), /leads to "nowhere"/],
      [one('zero', {}, { options: { '0': 'home' } }), /option "0"/],
      [one('more', {}, { options: { '98': 'home' } }), /option "98"/],
      [one('half', {}, { text: undefined, ask: 'ask' }), /ask, input and next together/],
      [one('vague', {}, { values: () => ({}) }), /no sample/],
      [one('wide', { title: 'x'.repeat(150) }), /"preMenu" takes \d+ septets/],
    ]
    for (const [menu, message] of faults) await expect(starting(menu)).rejects.toThrow(message)
  })

  it('hands `next` what its own schema parsed', async () => {
    const given: number[] = []
    const menu = defineMenu({
      name: 'sum',
      title: 'title',
      start: 'number',
      texts: texts({}),
      screens: {
        number: {
          ask: 'ask',
          input: z.coerce.number().int(),
          next(number) {
            given.push(number)
            return 'said'
          },
        },
        said: { text: 'text' },
      },
    })
    await using app = await starting(menu)
    const phone = new Phone(
      '+254711000111',
      async (request) => (await app.post('/api/ussd', request)).body,
    )
    await phone.dial()
    await phone.type('4')
    expect(await phone.type('many')).toMatch(/^CON Not valid/)
    expect(await phone.type('41')).toMatch(/^CON Some words/)
    expect(given).toEqual([41])
  })

  it('built in reaches every screen in every language, and each answer fits', async () => {
    await using app = await starting()
    for (const [index] of languages.entries()) {
      const number = `+25471100011${index}`
      const phone = new Phone(
        number,
        async (request) => (await app.post('/api/ussd', request)).body,
      )
      await phone.dial()
      await phone.type('2', '3', String(index + 1))
      const ways = [
        [],
        ['1'],
        ['1', '1'],
        ['1', '2'],
        ['1', '3'],
        ['2'],
        ['2', '1'],
        ['2', '2'],
        ['2', '3'],
        ['2', '4'],
        ['3'],
        ['9'],
        ['2', '9'],
        ['*'],
      ]
      for (const way of ways) {
        let answer = await phone.dial()
        for (const input of way) answer = await phone.type(input)
        expect(answer, way.join(' ')).toMatch(way[0] === '*' ? /^END / : /^CON /)
        expect(fits(answer.slice(4)), answer).toBe(true)
        expect(answer).not.toMatch(/\{\w+\}/)
      }
    }
  })
})
