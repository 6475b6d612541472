import { afterAll, beforeAll, expect } from 'vitest'
import { type AnyPlugin, definePlugin, type ModelRequest } from '#core'
import {
  scriptedModel,
  testApp,
  type ScriptedModel,
  type ScriptedStep,
  type TestApp,
  type TestUser,
} from '#core/testing'
import memory from '../../plugins/memory/index.ts'
import type { Remembering } from '../../plugins/memory/remembering.ts'

/** The operator of the apps of these tests. */
export const operator = { headers: { authorization: 'Bearer operator-token-of-this-test' } }

/** One app for all tests of a suite: each test has users of its own, and says what the model answers to them. */
export class OpenMemory {
  /** What the model says in turns, in order. */
  readonly replies: ScriptedStep[] = []
  /** What the model that notices proposes, by words of what it is asked. */
  readonly #readings = new Map<string, ScriptedStep>()
  readonly model: ScriptedModel
  /** What the model says in every turn; where it is not set, it says what stands in `replies`. */
  always: ((request: ModelRequest) => ScriptedStep) | undefined
  /** Called when the model that notices is asked. */
  onReading: (() => void) | undefined
  #app: TestApp | undefined
  #self: Remembering | undefined

  constructor(
    env: Record<string, string> = {},
    databaseUrl?: string,
    others: readonly AnyPlugin[] = [],
  ) {
    const answer: ScriptedStep = (request) => {
      const asked = JSON.stringify(request.messages)
      if (!asked.includes('You read what a person said'))
        return this.always?.(request) ?? this.replies.shift() ?? 'Hello.'
      this.onReading?.()
      const found = [...this.#readings].find(([words]) => asked.includes(words))
      return found?.[1] ?? '{"memories":[]}'
    }
    this.model = scriptedModel(Array.from({ length: 2_000 }, () => answer))
    const keep = (self: Remembering) => (this.#self = self)
    const probe = definePlugin({
      name: 'memory-probe',
      version: '1.0.0',
      summary: 'Hands the parts of memory to the test.',
      requires: [memory],
      setup: ({ plugins }) => void keep(plugins.memory),
    })
    beforeAll(async () => {
      this.#app = await testApp({
        plugins: [memory, probe, ...others],
        model: this.model,
        clock: true,
        env: {
          OPERATOR_TOKEN: 'operator-token-of-this-test',
          // On a machine that does much else a prompt may take long, and a turn would go on without it.
          PROMPT_BUDGET_MS: '10000',
          ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
          ...env,
        },
      })
    })
    afterAll(() => this.#app?.close())
  }

  get app(): TestApp {
    if (this.#app) return this.#app
    throw new Error('The suite has not begun.')
  }

  /** The parts of memory in the app. */
  get self(): Remembering {
    if (this.#self) return this.#self
    throw new Error('The suite has not begun.')
  }

  /** Says what the model that notices proposes, once it is asked about these words. */
  notices(words: string, ...memories: readonly Record<string, unknown>[]): void {
    this.#readings.set(words, JSON.stringify({ memories }))
  }

  /** Has the model that notices do something else, once it is asked about these words: fail, babble, or say nothing. */
  errs(words: string, step: ScriptedStep): void {
    this.#readings.set(words, step)
  }

  /** A new user whose memory is on. */
  async user(): Promise<TestUser> {
    const user = await this.app.user()
    await user.put('/memory/settings', { mode: 'on' })
    return user
  }

  /** The sentences that are remembered of a user. */
  async texts(user: TestUser, query = ''): Promise<string[]> {
    const { body } = await user.get(`/memory${query}`)
    return body.memories.map(({ text }: { text: string }) => text)
  }

  /** Waits until a turn of a session waits to be read: memory hears of it a moment after its end. */
  async heard(user: TestUser, sessionId: string): Promise<void> {
    await expect.poll(() => this.#pending(user, sessionId), { timeout: 30_000 }).toBe(1)
  }

  /** Moves the clock past the quiet time, once the turn waits to be read, and waits until it was read. */
  async quiet(user: TestUser, sessionId: string): Promise<void> {
    await this.heard(user, sessionId)
    await this.#pastQuiet(user, sessionId)
  }

  /** The same, for a turn that may not wait to be read. */
  async quietAny(user: TestUser, sessionId: string): Promise<void> {
    const settled = async () => {
      const rows = await this.self.db
        .selectFrom('memory_passages')
        .select('run_id')
        .where('session_id', '=', sessionId)
        .execute()
      return rows.length
    }
    await expect.poll(settled, { timeout: 30_000 }).toBe(1)
    await this.#pastQuiet(user, sessionId)
  }

  async #pastQuiet(user: TestUser, sessionId: string): Promise<void> {
    await this.app.clock.advance('2m')
    await expect.poll(() => this.#pending(user, sessionId), { timeout: 30_000 }).toBe(0)
  }

  async #pending(user: TestUser, sessionId: string): Promise<number> {
    return (await user.get(`/memory/sessions/${sessionId}`)).body.pending
  }

  /** Forgets what the model that notices was to propose. */
  forgetReadings(): void {
    this.#readings.clear()
  }

  /** What was counted so far. */
  async counts(): Promise<Record<string, number>> {
    return (await this.app.get('/memory/status', operator)).body.counts
  }
}
