import type { Log, Schema } from '#core'
import type { Catalogues, Language, Values } from './catalogue.ts'

type SchemaLike = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
type Parsed<S> = S extends SchemaLike ? S['_zod']['output'] : string
type MaybePromise<T> = T | Promise<T>

/** What a handler knows of the phone and its session. */
export interface ScreenContext {
  readonly phoneNumber: string
  readonly sessionId: string
  readonly log: Log
  /** The language of the session. A handler assigns it to change the language of this session and of later ones. */
  language: Language
  /** The customer who is logged in. A handler assigns the account to log a customer in or out. */
  account: { readonly customerId: string; readonly did: string } | undefined
  /** What the menu remembers until the session ends. The database stores the memory, so no secret belongs in it. */
  readonly memory: Record<string, string>
  /** A sentence of the menu's catalogue in the language of the session. */
  t(key: string, values?: Values): string
}

/** The answer of a handler that ends the session with a sentence of the catalogue. */
export class End {
  readonly key: string
  readonly values: Values | undefined

  constructor(key: string, values?: Values) {
    this.key = key
    this.values = values
  }
}

/** The answer of a handler: the name of the next screen, or the end. */
export type Next = string | End

/** Makes the answer that ends the session with a sentence of the catalogue. */
export const end = (key: string, values?: Values): End => new End(key, values)

/** The error by which a handler refuses an input: the screen stays, with a sentence of the catalogue above it. */
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
  /** The key of this screen's name, which other screens show where an option leads to this screen. */
  readonly title?: string
  /** The key of the text of a screen that asks nothing. */
  readonly text?: string
  /** The key of the question of a screen that asks something; such a screen needs `input` and `next`. */
  readonly ask?: string
  /** The values for the placeholders of `text` or `ask`. */
  values?(ctx: ScreenContext): MaybePromise<Values>
  /** The longest possible values, with which the gateway measures the screen at boot. */
  readonly sample?: Values
  /** Whether the text may run over several pages. */
  readonly long?: boolean
  /** The numbers that a caller may type, and the names of the screens to which they lead. */
  readonly options?: Readonly<Record<string, string>>
  readonly input?: Input
  /** Whether the input is a secret: only `next` gets a secret, which reaches no log, no record and no row. */
  readonly secret?: boolean
  /** Whether `next` writes (the default) and so runs at most once, or only reads and may run again on another server. */
  readonly effect?: 'read' | 'write'
  next?(value: Value, ctx: ScreenContext): MaybePromise<Next>
}

/** One screen with its types erased, as the engine draws it. */
export type Screen = ScreenShape<Schema, any> // any: each screen's own schema has parsed the value

/** A menu with its types erased. */
export interface Menu {
  /** Lower-case words joined by hyphens, unique among the menus. */
  readonly name: string
  /** The key of the menu's words on the welcome screen. */
  readonly title: string
  /** The name of the first screen, or a function that finds this name. */
  readonly start: string | ((ctx: ScreenContext) => MaybePromise<string>)
  readonly texts: Catalogues
  readonly screens: Readonly<Record<string, Screen>>
}

/** Screens by their names, each with the types of its own input. */
type Screens<Inputs> = { [K in keyof Inputs]: ScreenShape<Inputs[K], Parsed<Inputs[K]>> }

/** Describes some screens of a menu, for a menu whose screens stand in several files. */
export function defineScreens<Inputs>(screens: Screens<Inputs>): Record<keyof Inputs, Screen> {
  return screens as unknown as Record<keyof Inputs, Screen> // the same object, without the types of its inputs
}

/**
 * Describes a menu, whose screens are data, with a handler on each screen that asks something. The handler `next`
 * gets the value that the `input` schema of its own screen has parsed.
 */
export function defineMenu<Inputs>(
  menu: Omit<Menu, 'screens'> & { readonly screens: Screens<Inputs> },
): Menu {
  return menu as unknown as Menu // the same object, without the types of its inputs
}
