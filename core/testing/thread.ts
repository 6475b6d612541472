import type { Emit, User } from '../plugin.ts'
import { RuntimeError } from '../errors.ts'
import type { RunningApp } from '../runtime/running-app.ts'
import { loadCapabilities } from '../runtime/agent/turn/capabilities.ts'
import { startingState } from '../runtime/store/room-state.ts'
import { Consent } from '../runtime/agent/turn/consent.ts'
import type { Turn } from '../runtime/agent/turn/turn.ts'

/** Who speaks in a thread, and what they may do. */
export interface ThreadOptions {
  /** The user's DID. */
  readonly did?: string
  /** What the user's delegation grants; everything by default. `['notes/write']` grants only that. */
  readonly grants?: readonly string[]
  /** What tools read as `ctx.signal`. */
  readonly signal?: AbortSignal
  /** What tools read as `ctx.approvals`: true as from a client that shows approvals. */
  readonly approvals?: boolean
  /** What tools read as `ctx.message`. */
  readonly message?: string
  /** What tools read as `ctx.shared`. */
  readonly shared?: boolean
}

/** How a thread calls a tool. */
export interface CallOptions {
  /** A person has approved the call: without it, a tool that wants a person asked is not run. */
  readonly approve?: boolean
}

/** Something that a tool told its listeners. */
export interface Emitted {
  /** The function of `ctx.emit`. */
  readonly event: keyof Emit
  /** What the tool gave it. */
  readonly args: readonly unknown[]
}

/** A conversation that no model leads: loads capabilities and calls tools as an agent would. Tools may ask the app's model aside. */
export class Thread {
  /** Who speaks. */
  readonly user: User
  /** What tools told their listeners, in order. */
  readonly emitted: Emitted[] = []
  readonly #app: RunningApp
  readonly #turn: Turn
  #calls = 0
  #content = ''

  /** @internal Only `testApp` makes threads: the insides of an app stay out of the package's declarations. */
  constructor(app: RunningApp, options: ThreadOptions = {}) {
    const { did = 'did:key:z6MkTestUser', grants, signal, approvals, message, shared } = options
    this.#app = app
    this.user = fakeUser(did, grants)
    this.#turn = {
      user: this.user,
      message,
      shared,
      rights: app.grants,
      session: { id: 'test-session' },
      room: `${did}:test-room`,
      requestId: 'test-request',
      rootId: 'test-run',
      results: { areKept: false },
      signal: signal ?? new AbortController().signal,
      model: app.model,
      asked: { count: 0 },
      consent: new Consent({ request: { message: '', approvals } }),
      loaded: new Set(),
      states: new Map(app.records.map((record) => [record.name, startingState(record)])),
      emit: () => recordInto(this.emitted),
    }
  }

  /** Loads capabilities by name, as `load_capability` does; an unknown name throws. */
  load(...names: string[]): this {
    const { unknown, unavailable } = loadCapabilities(
      this.#app.records,
      names,
      this.#turn.loaded,
      this.#turn,
    )
    const problem = unknown?.[0] ?? unavailable?.[0]
    if (problem)
      throw new Error(`load(${JSON.stringify(problem.name)}): ${JSON.stringify(problem)}`)
    return this
  }

  /**
   * Calls a tool through gate, validation and middleware. Resolves to the tool's value, rejects with its error; a tool
   * that wants a person asked first rejects with `APPROVAL_NEEDED` unless the call says `approve: true`.
   */
  async call(name: string, args: unknown = {}, { approve }: CallOptions = {}): Promise<unknown> {
    const outcome = await this.#app.tools.call(
      { id: `call-${++this.#calls}`, name, args },
      this.#turn,
      { decisionOn: () => (approve ? { decision: 'approve' } : undefined) },
    )
    this.#content = outcome.content
    if (outcome.error) throw outcome.error
    if (outcome.waits)
      throw new RuntimeError('APPROVAL_NEEDED', `"${name}" asks a person before it runs.`, {
        hint: `Approve it in the test: thread.call("${name}", args, { approve: true }).`,
      })
    return outcome.value
  }

  /** What a model would have read of the last call, a failed one included. */
  get content(): string {
    return this.#content
  }

  /** The names of the tools that the kernel would show a model now. */
  get tools(): string[] {
    return this.#app.tools.specs(this.#turn).map(({ name }) => name)
  }

  /** A plugin's state in this thread. */
  state(plugin: string): Readonly<Record<string, unknown>> {
    return this.#turn.states.get(plugin) ?? {}
  }
}

function fakeUser(did: string, grants: readonly string[] | undefined): User {
  const can = (ability: string) => grants === undefined || grants.includes(ability)
  return {
    did,
    can,
    denial: (ability) =>
      can(ability) ? [] : [`The test grants ${grants?.join(', ') || 'nothing'}.`],
  }
}

const recordInto = (emitted: Emitted[]): Emit => {
  const note =
    (event: keyof Emit) =>
    (...args: unknown[]) =>
      void emitted.push({ event, args })
  return {
    component: note('component'),
    reasoning: note('reasoning'),
    progress: note('progress'),
    router: note('router'),
    invalidate: note('invalidate'),
  }
}
