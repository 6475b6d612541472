import { RuntimeError } from '#core'
import { common, fill, type Language, languages, type Values } from './catalogue.ts'
import { type Drawing, largestPage } from './draw.ts'
import { measure } from './gsm7.ts'
import type { Menu, Screen } from './menu.ts'

/** A screen's place among the menus. */
export interface Place {
  readonly menu: string
  readonly screen: string
}

const namePattern = /^[a-z][a-z0-9-]*$/
const optionPattern = /^[1-9][0-9]?$/
const reserved = new Set(['0', '98'])

/** The menus in load order. `add` measures the screens of a menu before it accepts the menu. */
export class Menus {
  readonly #menus = new Map<string, Menu>()
  readonly #welcome = new Map<Language, string>()
  readonly #serviceName: string | undefined

  constructor(serviceName?: string) {
    this.#serviceName = serviceName
    this.#drawWelcome([])
  }

  /** The entries of the welcome screen, whose numbers begin at 1. */
  get entries(): Menu[] {
    return [...this.#menus.values()]
  }

  get(name: string): Menu | undefined {
    return this.#menus.get(name)
  }

  screen({ menu, screen }: Place): Screen | undefined {
    const screens = this.#menus.get(menu)?.screens
    return screens && Object.hasOwn(screens, screen) ? screens[screen] : undefined
  }

  welcome(language: Language): string {
    return this.#welcome.get(language) ?? ''
  }

  say(menu: string | undefined, language: Language, key: string, values?: Values): string {
    const texts = menu === undefined ? undefined : this.#menus.get(menu)?.texts[language]
    return fill(texts?.[key] ?? common[language][key] ?? key, values)
  }

  /** Whether the texts of a menu, or the gateway's own, have this key. */
  hasWords(menu: string, language: Language, key: string): boolean {
    return (this.#menus.get(menu)?.texts[language][key] ?? common[language][key]) !== undefined
  }

  /** Adds a menu as the next entry, or throws an error that lists the faults of the menu. */
  add(menu: Menu): void {
    const faults = [...this.#faultsOf(menu)]
    if (faults.length > 0)
      throw new RuntimeError(faults[0]!.code, faults.map(({ sentence }) => sentence).join(' '), {
        status: 500,
        hint: faults[0]!.hint,
      })
    this.#menus.set(menu.name, menu)
    this.#drawWelcome(this.entries)
  }

  /** The parts of a screen around a text, in one language. */
  drawing(place: Place, language: Language, text: string): Drawing {
    return drawingOf(this.#menus.get(place.menu)!, this.screen(place)!, language, text)
  }

  #drawWelcome(entries: readonly Menu[]): void {
    for (const language of languages)
      this.#welcome.set(language, this.#welcomeOf(entries, language))
  }

  #welcomeOf(entries: readonly Menu[], language: Language): string {
    const words = common[language]
    return [
      fill(words.welcome!, { name: this.#serviceName ?? words.serviceName! }),
      ...entries.map(({ title, texts }, index) => `${index + 1}. ${texts[language][title]}`),
      `*. ${words.exit}`,
    ].join('\n')
  }

  *#faultsOf(menu: Menu): Generator<{ code: string; sentence: string; hint?: string }> {
    const invalid = (what: string) => ({
      code: 'MENU_INVALID',
      sentence: `The menu "${menu.name}" is malformed: ${what}.`,
    })
    if (!namePattern.test(menu.name)) yield invalid('its name is not lower-case words and hyphens')
    if (this.#menus.has(menu.name)) yield invalid('another menu has this name')
    if (typeof menu.start === 'string' && !Object.hasOwn(menu.screens, menu.start))
      yield invalid(`it starts at the screen "${menu.start}", which it does not have`)
    const wrong = [...wrongScreens(menu)]
    yield* wrong.map(invalid)
    if (wrong.length > 0) return

    const tooLong = (screen: string, language: Language, size: string) => ({
      code: 'SCREEN_TOO_LONG',
      sentence: `The screen "${screen}" takes ${size} in "${language}".`,
      hint: 'Shorten it, or let it run over several pages with long: true.',
    })
    for (const language of languages) {
      const welcome = measure(this.#welcomeOf([...this.entries, menu], language))
      if (welcome.size > welcome.most) yield tooLong('preMenu', language, said(welcome))
      for (const [name, screen] of Object.entries(menu.screens)) {
        const words = menu.texts[language][screen.text ?? screen.ask ?? ''] ?? ''
        const drawing = drawingOf(menu, screen, language, fill(words, screen.sample))
        const measured = largestPage(drawing, screen.long === true)
        if (measured.size > measured.most)
          yield tooLong(`${menu.name}.${name}`, language, said(measured))
      }
    }
  }
}

const said = ({ size, most, unit }: ReturnType<typeof measure>) =>
  `${size} ${unit}, and ${most} fit,`

function drawingOf(menu: Menu, screen: Screen, language: Language, text: string): Drawing {
  const words = common[language]
  const label = (target: string) =>
    menu.texts[language][menu.screens[target]?.title ?? ''] ?? target
  return {
    text,
    lines: Object.entries(screen.options ?? {}).map(([digit, to]) => `${digit}. ${label(to)}`),
    foot: [`0. ${words.back}`],
    more: `98. ${words.more}`,
  }
}

/** The faults of the screens of a menu, apart from their length. */
function* wrongScreens({ screens, texts, title }: Menu): Generator<string> {
  for (const language of languages) {
    const has = (key: string) => Object.hasOwn(texts[language], key)
    if (!has(title)) yield `its title "${title}" has no words in "${language}"`
    for (const [name, screen] of Object.entries(screens))
      for (const key of [screen.title, screen.text, screen.ask])
        if (key !== undefined && !has(key))
          yield `"${key}" of the screen "${name}" has no words in "${language}"`
  }
  for (const [name, { text, ask, input, next, options, sample, values }] of Object.entries(
    screens,
  )) {
    if ((text === undefined) === (ask === undefined))
      yield `the screen "${name}" has either a text or an ask`
    if (
      (ask !== undefined) !== (next !== undefined) ||
      (ask !== undefined) !== (input !== undefined)
    )
      yield `the screen "${name}" asks with ask, input and next together`
    if (values && !sample)
      yield `the screen "${name}" has values and no sample of the longest to measure it with`
    for (const [digit, target] of Object.entries(options ?? {})) {
      if (!optionPattern.test(digit) || reserved.has(digit))
        yield `the screen "${name}" has the option "${digit}", which is not a number from 1 to 97`
      if (!Object.hasOwn(screens, target))
        yield `the screen "${name}" leads to "${target}", which it does not have`
      else if (screens[target]!.title === undefined)
        yield `the screen "${target}" has no title, and "${name}" draws it as an option`
    }
  }
}
