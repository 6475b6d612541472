import { afterAll, beforeAll } from 'vitest'
import type { AnyPlugin, ModelRequest } from '#core'
import {
  scriptedModel,
  type ScriptedStep,
  testApp,
  type TestApp,
  type TestAppOptions,
} from '#core/testing'
import messaging from '../../plugins/messaging/index.ts'
import { Homeserver, type HomeserverOptions } from '../../plugins/messaging/testing/homeserver.ts'
import { Person } from '../../plugins/messaging/testing/person.ts'

export const oracleId = '@oracle:home.test'
export const oraclePassword = 'oracle-password'
const storeKey = 'ab'.repeat(32)
/** Shorter words stand in a log by chance. */
const leastSentence = 12

/** The variables with which an app finds the small homeserver. */
export const messagingEnv = (url: string): Record<string, string> => ({
  MATRIX_BASE_URL: url,
  MATRIX_ORACLE_ADMIN_USER_ID: oracleId,
  MATRIX_ORACLE_ADMIN_PASSWORD: oraclePassword,
  MATRIX_STORE_KEY: storeKey,
  MESSAGING_EDIT_MS: '100',
  MESSAGING_TURNS_PER_MINUTE: '1000',
})

/** What a suite's oracle has beside messaging. */
export interface OracleOptions {
  readonly databaseUrl?: string | undefined
  readonly plugins?: readonly AnyPlugin[]
  readonly env?: Readonly<Record<string, string>>
  readonly homeserver?: HomeserverOptions
  /** The name of the oracle's account. */
  readonly account?: string
  readonly app?: Partial<TestAppOptions>
}

/** A homeserver, an oracle that answers on it, and people, for the tests of one suite. */
export class OpenOracle {
  server!: Homeserver
  app!: TestApp
  readonly replies: ScriptedStep[] = []
  /** Answers in place of `replies`, where one answer is not like the other. */
  answer: ((request: ModelRequest) => ScriptedStep) | undefined
  readonly model = scriptedModel(
    Array.from(
      { length: 1_000 },
      () => (request: ModelRequest) =>
        this.answer?.(request) ?? this.replies.shift() ?? 'I have nothing to say.',
    ),
  )
  readonly #options: OracleOptions
  readonly #people: Person[] = []
  readonly #printed: string[] = []

  constructor(options: OracleOptions = {}) {
    this.#options = options
    beforeAll(async () => {
      this.server = await Homeserver.open(options.homeserver)
      this.server.register(options.account ?? 'oracle', oraclePassword)
      this.app = await testApp(this.appOptions())
      await this.loaded()
    }, 60_000)
    afterAll(async () => {
      for (const person of this.#people) await person.close()
      await this.app.close()
      this.#searchLog()
      await this.server.stop()
    }, 60_000)
  }

  appOptions(): TestAppOptions {
    const { databaseUrl, plugins = [], env = {}, app, account } = this.#options
    return {
      plugins: [messaging, ...plugins],
      model: this.model,
      fetch,
      ...app,
      log: (line) => void this.#printed.push(line),
      env: {
        ...messagingEnv(this.server.url),
        ...(account !== undefined && { MATRIX_ORACLE_ADMIN_USER_ID: `@${account}:home.test` }),
        ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl, RUN_LEASE_MS: '3000' }),
        ...env,
      },
    }
  }

  /** Searches all that the oracle has logged for every sentence that was said or heard, and for every secret. */
  #searchLog(): void {
    const text = this.#printed.join('\n')
    const sentences = this.#people.flatMap((person) => person.sentences)
    const tokens = [oracleId, ...this.#people.map(({ userId }) => userId)].flatMap((account) =>
      this.server.accounts.tokensOf(account),
    )
    const secrets = [oraclePassword, storeKey, ...tokens, 'syt_', 'BEGIN PRIVATE']
    for (const one of [...secrets, ...sentences.filter((said) => said.length >= leastSentence)])
      if (text.includes(one)) throw new Error(`The log has "${one.slice(0, 100)}".`)
  }

  /** Waits until the oracle answers in its rooms. */
  async loaded(app: TestApp = this.app): Promise<void> {
    await waitFor(async () => (await app.get('/messaging')).status === 200)
  }

  /** Registers a person and logs in. */
  async person(name: string): Promise<Person> {
    this.server.register(name)
    const person = await Person.open(this.server.url, `@${name}:home.test`, `${name}-password`)
    this.#people.push(person)
    return person
  }

  /** A room of a person and the oracle. */
  async directRoom(person: Person, encrypted = true): Promise<string> {
    const room = await person.createRoom({ invite: [oracleId], encrypted, direct: true })
    await waitFor(async () => this.server.room(room).membership(oracleId) === 'join')
    return room
  }
}

/** Waits until something is so. */
export async function waitFor(is: () => Promise<boolean>, patienceMs = 30_000): Promise<void> {
  const until = Date.now() + patienceMs
  while (!(await is())) {
    if (Date.now() > until) throw new Error(`Waited in vain until ${is}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}
