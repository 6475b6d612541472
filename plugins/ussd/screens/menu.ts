import type { Log, Schema } from '#core'
import type { Catalogues, Language, Values } from './catalogue.ts'

type SchemaLike = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
type Parsed<S> = S extends SchemaLike ? S['_zod']['output'] : string
type MaybePromise<T> = T | Promise<T>

/** Who is at the phone and what this session has gathered. */
export interface ScreenContext {
  readonly phoneNumber: string
  readonly sessionId: string
  readonly log: Log
  /** Assign to change it, here and in later sessions of this phone. */
  language: Language
  /** The customer who is logged in. Assign to log in or out. */
  account: { readonly customerId: string; readonly did: string } | undefined
  /** What the menu keeps until the session ends. It is stored: no secret belongs in it. */
  readonly memory: Record<string, string>
  /** A sentence of the menu's catalogue in the language of the session. */
  t(key: string, values?: Values): string
}

/** Ends the session with these words. */
export class End {
  readonly key: string
  readonly values: Values | undefined

  constructor(key: string, values?: Values) {
    this.key = key
    this.values = values
  }
}

/** What a handler answers: the next screen's name, or the end. */
export type Next = string | End

/** Ends the session with a sentence of the catalogue. */
export const end = (key: string, values?: Values): End => new End(key, values)

/** Stays on the screen, with a sentence above it that says why. */
export class Refusal extends Error {
  readonly key: string
  readonly values: Values | undefined

  constructor(key: string, values?: Values) {
    super(key)
    this.key = key
    this.values = values
  }
}

interface ScreenShape<Input, Value> {
  /** The key of this screen's name, drawn where an option leads here. */
  readonly title?: string
  /** The key of what the screen says. */
  readonly text?: string
  /** The key of what the screen asks; `input` and `next` go with it. */
  readonly ask?: string
  /** What fills the placeholders of `text` or `ask`. */
  values?(ctx: ScreenContext): MaybePromise<Values>
  /** The longest values there can be: what the screen is measured with at boot. */
  readonly sample?: Values
  /** Whether the text may run over several pages. */
  readonly long?: boolean
  /** Numbers and the screens they lead to. */
  readonly options?: Readonly<Record<string, string>>
  readonly input?: Input
  /** A secret reaches `next` and nothing else: no log, no record, no row. */
  readonly secret?: boolean
  /** A write (the default) runs at most once; a read may run again on another server. */
  readonly effect?: 'read' | 'write'
  next?(value: Value, ctx: ScreenContext): MaybePromise<Next>
}

/** One screen with its types erased, as the engine draws it. */
export type Screen = ScreenShape<Schema, any> // any: each screen's own schema has parsed the value

/** A menu with its types erased. */
export interface Menu {
  /** Lower-case words joined by hyphens, unique among the menus. */
  readonly name: string
  /** The key of the entry's words on the welcome screen. */
  readonly title: string
  /** Where the entry leads: a screen, or what finds it. */
  readonly start: string | ((ctx: ScreenContext) => MaybePromise<string>)
  readonly texts: Catalogues
  readonly screens: Readonly<Record<string, Screen>>
}

/**
 * Describes a menu: screens as data, handlers where something is asked. The value that `next` gets
 * is what the screen's own `input` parses.
 */
export function defineMenu<Inputs>(
  menu: Omit<Menu, 'screens'> & {
    readonly screens: { [K in keyof Inputs]: ScreenShape<Inputs[K], Parsed<Inputs[K]>> }
  },
): Menu {
  return menu as unknown as Menu // the same object; only the inputs' types are gone
}
