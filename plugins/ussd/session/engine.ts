import type { Log, Schema } from '#core'
import { fill, type Language } from '../screens/catalogue.ts'
import { pagesOf } from '../screens/draw.ts'
import { fits } from '../screens/gsm7.ts'
import { End, type Next, Refusal, type Screen, type ScreenContext } from '../screens/menu.ts'
import type { Menus, Place } from '../screens/entries.ts'

/** The state of a session: plain data, which the row of the session holds as JSON. */
export interface State {
  /** The screens from the first screen of a menu to the present one; empty on the welcome screen. */
  readonly stack: readonly Place[]
  readonly page: number
  readonly language: Language
  readonly account?: { readonly customerId: string; readonly did: string }
  readonly memory: Readonly<Record<string, string>>
  /** What an earlier session left unfinished, while the screen asks whether to continue there. */
  readonly left?: { readonly stack: readonly Place[]; readonly memory: Record<string, string> }
}

/** The result of a step. */
export interface Outcome {
  readonly state: State
  readonly body: string
  readonly ended: boolean
}

/** The phone behind a step, with what the engine asks and tells outside. */
export interface Caller {
  readonly phoneNumber: string
  readonly sessionId: string
  /** What an earlier session of this phone left unfinished in a menu. */
  leftover(menu: string): Promise<State['left']>
  /** Receives the outcome of a screen that writes, which contains ids only. */
  wrote?(what: Written): void
}

/** The outcome of a screen that writes. */
export interface Written {
  readonly screen: string
  /** The customer id, if a customer is logged in after the step. */
  readonly account: string | undefined
  /** The key of the sentence that says why the handler refused the input. */
  readonly refused?: string
}

const back = '0'
const more = '98'

/** The name of the present screen, as operators see it. */
export function screenName({ stack, left }: State): string {
  if (left) return 'resume'
  const top = stack.at(-1)
  return top === undefined ? 'preMenu' : `${top.menu}.${top.screen}`
}

/** Moves sessions from screen to screen. The engine knows nothing of requests, rows or time. */
export class Engine {
  readonly #menus: Menus
  readonly #log: Log

  constructor(menus: Menus, log: Log) {
    this.#menus = menus
    this.#log = log
  }

  /** Whether an input runs a handler that writes, and that may therefore run only once. */
  isWrite({ stack, left }: State, input: string): boolean {
    const top = stack.at(-1)
    const screen = top === undefined || left ? undefined : this.#menus.screen(top)
    return Boolean(screen?.next) && screen?.effect !== 'read' && input !== back && input !== more
  }

  /** The outcome that begins a session: the welcome screen. */
  begin(language: Language): Outcome {
    return this.#welcome({ stack: [], page: 0, language, memory: {} })
  }

  /** Follows the numbers of a dialled short cut up to the first screen with a handler, so that a repeat does nothing twice. */
  async walk(start: Outcome, inputs: readonly string[], caller: Caller): Promise<Outcome> {
    let at = start
    for (const input of inputs) {
      const top = at.state.stack.at(-1)
      if (at.ended || (top && this.#menus.screen(top)?.next)) break
      at = await this.step(at.state, input, caller)
    }
    return at
  }

  /** Takes one input on the present screen of a state. The method does not change the state object. */
  async step(state: State, input: string, caller: Caller): Promise<Outcome> {
    if (state.left) return this.#stepResume(state, state.left, input, caller)
    const top = state.stack.at(-1)
    if (top === undefined) return this.#stepWelcome(state, input, caller)
    const screen = this.#menus.screen(top)
    // The screen is missing after an update of the server, so the session starts over.
    if (screen === undefined) return this.#welcome({ ...state, stack: [], page: 0 })
    if (input === back)
      return this.#show({ ...state, stack: state.stack.slice(0, -1), page: 0 }, caller)
    if (input === more && screen.long) return this.#show({ ...state, page: state.page + 1 }, caller)
    const target = screen.options?.[input]
    if (target !== undefined && Object.hasOwn(screen.options!, input))
      return this.#go(state, { menu: top.menu, screen: target }, caller)
    if (screen.next && screen.input)
      return this.#answer(state, top, screen, screen.input, input, caller)
    return this.#show(state, caller, this.#menus.say(top.menu, state.language, 'wrongOption'))
  }

  async #stepWelcome(state: State, input: string, caller: Caller): Promise<Outcome> {
    if (input === '*')
      return { state, body: this.#menus.say(undefined, state.language, 'goodbye'), ended: true }
    const menu = /^[1-9][0-9]?$/.test(input) ? this.#menus.entries[Number(input) - 1] : undefined
    if (menu === undefined) {
      const notice = this.#menus.say(undefined, state.language, 'wrongOption')
      return this.#welcome(state, notice)
    }
    const left = await caller.leftover(menu.name)
    if (left)
      return this.#show({ ...state, left, stack: [{ menu: menu.name, screen: '' }] }, caller)
    return this.#enter(state, menu.name, caller)
  }

  async #enter(state: State, name: string, caller: Caller): Promise<Outcome> {
    const { start } = this.#menus.get(name)!
    const draft = this.#context(state, name, caller)
    const screen = typeof start === 'string' ? start : await start(draft.ctx)
    return this.#show({ ...draft.state(), stack: [{ menu: name, screen }], page: 0 }, caller)
  }

  async #stepResume(
    state: State,
    left: NonNullable<State['left']>,
    input: string,
    caller: Caller,
  ): Promise<Outcome> {
    const { left: _, ...rest } = state
    const clean: State = { ...rest, stack: [], page: 0 }
    if (input === '1')
      return this.#show({ ...clean, stack: left.stack, memory: left.memory }, caller)
    if (input === '2') return this.#enter(clean, state.stack[0]!.menu, caller)
    if (input === back) return this.#welcome(clean)
    return this.#show(state, caller, this.#menus.say(undefined, state.language, 'wrongOption'))
  }

  #go(state: State, to: Place, caller: Caller): Promise<Outcome> {
    // A step to a screen that is already on the stack goes back to that screen, so that the stack stays short.
    const passed = state.stack.findIndex(
      ({ menu, screen }) => menu === to.menu && screen === to.screen,
    )
    const before = passed < 0 ? state.stack : state.stack.slice(0, passed)
    return this.#show({ ...state, stack: [...before, to], page: 0 }, caller)
  }

  async #answer(
    state: State,
    top: Place,
    screen: Screen,
    schema: Schema,
    input: string,
    caller: Caller,
  ): Promise<Outcome> {
    const parsed = await schema['~standard'].validate(input)
    if (parsed.issues) {
      const key = parsed.issues[0]?.message ?? ''
      const known = this.#menus.hasWords(top.menu, state.language, key)
      const notice = this.#menus.say(top.menu, state.language, known ? key : 'wrongInput')
      return this.#show(state, caller, notice)
    }
    const { ctx, state: changed } = this.#context(state, top.menu, caller)
    let next: Next
    try {
      next = await screen.next!(parsed.value, ctx)
    } catch (thrown) {
      if (thrown instanceof Refusal) this.#tell(screen, state, changed(), caller, thrown.key)
      if (thrown instanceof Refusal)
        return this.#show(changed(), caller, ctx.t(thrown.key, thrown.values))
      if (!screen.secret) throw thrown
      // An error of this handler may quote the secret, so the log names only the screen.
      this.#log.error({ screen: screenName(state) }, 'the handler of a secret screen failed')
      throw new Error('The handler of a secret screen failed.')
    }
    this.#tell(screen, state, changed(), caller)
    if (next instanceof End)
      return {
        state: { ...changed(), stack: [], page: 0 },
        body: ctx.t(next.key, next.values),
        ended: true,
      }
    const to = { menu: top.menu, screen: next }
    // After a write the stack begins anew, because going back would suggest that the write can be undone.
    if (screen.effect !== 'read') return this.#show({ ...changed(), stack: [to], page: 0 }, caller)
    return this.#go(changed(), to, caller)
  }

  #tell(screen: Screen, before: State, after: State, caller: Caller, refused?: string): void {
    if (screen.effect === 'read') return
    const account = after.account?.customerId
    caller.wrote?.({ screen: screenName(before), account, ...(refused && { refused }) })
  }

  /** Makes the context of a handler, and a function that returns the state with the handler's changes. */
  #context(before: State, menu: string, caller: Caller) {
    const ctx: ScreenContext = {
      phoneNumber: caller.phoneNumber,
      sessionId: caller.sessionId,
      log: this.#log,
      language: before.language,
      account: before.account,
      memory: { ...before.memory },
      t: (key, values) => this.#menus.say(menu, ctx.language, key, values),
    }
    const state = (): State => {
      const { account: _, ...rest } = before
      const { language, memory, account } = ctx
      return { ...rest, language, memory, ...(account && { account }) }
    }
    return { ctx, state }
  }

  #welcome(state: State, notice?: string): Outcome {
    return { state, body: withNotice(this.#menus.welcome(state.language), notice), ended: false }
  }

  /** Draws the present screen of a state. */
  async #show(state: State, caller: Caller, notice?: string): Promise<Outcome> {
    const { language } = state
    if (state.left) {
      const say = (key: string) => this.#menus.say(undefined, language, key)
      const lines = [`1. ${say('continue')}`, `2. ${say('startAgain')}`, `0. ${say('back')}`]
      const body = [say('resume'), ...lines].join('\n')
      return { state, body: withNotice(body, notice), ended: false }
    }
    const top = state.stack.at(-1)
    if (top === undefined) return this.#welcome(state, notice)
    const screen = this.#menus.screen(top)
    if (screen === undefined) throw new Error(`The menu ${top.menu} has no screen ${top.screen}.`)
    const { ctx } = this.#context(state, top.menu, caller)
    const values = await screen.values?.(ctx)
    const words = this.#menus.say(top.menu, language, screen.text ?? screen.ask ?? '')
    const pages = pagesOf(this.#menus.drawing(top, language, fill(words, values)))
    const page = Math.min(state.page, pages.length - 1)
    return { state: { ...state, page }, body: withNotice(pages[page] ?? '', notice), ended: false }
  }

  /** Draws the present screen of a state again, with a sentence of the gateway above it. */
  again(state: State, caller: Caller, key: string): Promise<Outcome> {
    return this.#show(state, caller, this.#menus.say(undefined, state.language, key))
  }
}

/** Puts a sentence above a screen, if the screen has room for the sentence. */
function withNotice(body: string, notice: string | undefined): string {
  const noticed = notice === undefined ? body : `${notice}\n${body}`
  return fits(noticed) ? noticed : body
}
