import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, expect, it, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type PluginSessions, type Turns } from '../../core/plugin.ts'
import { call, type ScriptedStep, scriptedModel } from '../../core/testing/scripted-model.ts'
import { testApp, type TestApp, type TestUser } from '../../core/testing/test-app.ts'
import { onEachDatabase, onPostgres, type Where } from '../support/each-database.ts'
import { openStream } from '../support/event-stream.ts'

/** What happens within a turn when its model is asked, and what the model then says. */
type Meanwhile = () => ScriptedStep | Promise<ScriptedStep>

/** A plugin whose turns write wherever a turn can write. */
function desk() {
  let self: { sessions: PluginSessions; turns: Turns } | undefined
  const plugin = definePlugin({
    name: 'desk',
    summary: 'Writes everywhere.',
    visibility: 'always',
    state: {
      shelf: z.number().default(0).meta({ scope: 'room' }),
      drawer: z.number().default(0),
    },
    setup: ({ sessions, turns }) => (self = { sessions, turns }),
    jobs: {
      file: {
        input: z.object({ id: z.string() }),
        run: ({ id }, { audit }) => audit({ paper: id }),
      },
    },
    notices: () => undefined,
    tools: {
      list: {
        description: 'Lists much.',
        input: z.object({}),
        effect: 'read',
        run: () => Array.from({ length: 4_000 }, (_, n) => ({ n, name: `Paper ${n}` })),
      },
      put: {
        description: 'Puts a paper away.',
        input: z.object({}),
        effect: 'write',
        approve: false,
        run(_, { state }) {
          state.shelf += 1
          state.drawer += 1
          return 'away'
        },
      },
      burn: {
        description: 'Burns a paper.',
        input: z.object({}),
        effect: 'write',
        approve: true,
        run: () => 'burnt',
      },
    },
    routes: {
      'POST /file': {
        auth: 'public',
        input: z.object({ id: z.string() }),
        run: ({ id }, { jobs }) => jobs.later('file', { id }),
      },
    },
  })
  const made = () => {
    if (!self) throw new Error('The plugin is not set up.')
    return self
  }
  return { plugin, made }
}

async function open(where: Where) {
  const { plugin, made } = desk()
  const steps: Meanwhile[] = []
  const model = scriptedModel(
    Array.from({ length: 1_000 }, () => async () => (await steps.shift()?.()) ?? 'Done.'),
  )
  const env = {
    AUDIT_TABLE: 'on',
    OPERATOR_TOKEN: 'the-operator-of-this-test',
    ...(where.databaseUrl !== undefined && { DATABASE_URL: where.databaseUrl }),
  }
  const app = await testApp({ plugins: [plugin], model, env })
  return { app, made, steps }
}
type Opened = Awaited<ReturnType<typeof open>>

/** Holds a table so that nobody else writes to it, and sees who waits for that. */
async function holder(databaseUrl: string) {
  const [holding, looking] = [new pg.Client(databaseUrl), new pg.Client(databaseUrl)]
  await Promise.all([holding.connect(), looking.connect()])
  onTestFinished(async () => void (await Promise.all([holding.end(), looking.end()])))
  return {
    async hold(table: string) {
      await holding.query('begin')
      await holding.query(`lock table ${table} in exclusive mode`)
    },
    letGo: () => holding.query('rollback'),
    async isWanted(table: string): Promise<boolean> {
      const { rows } = await looking.query(
        `select 1 from pg_locks where relation = '${table}'::regclass and not granted limit 1`,
      )
      return rows.length > 0
    },
  }
}

/** What is asked of the app while a table is held. */
interface Act {
  /** What there must be before the table is held. */
  before?(opened: Opened, user: TestUser): Promise<string>
  /** Resolves when somebody is told that it is done, with what brings the turns to their ends that it has begun. */
  run(
    opened: Opened,
    user: TestUser,
    hold: () => Promise<void>,
    what: string,
  ): Promise<(() => Promise<unknown>) | void>
  readonly tables: readonly string[]
}

const session = async (_: Opened, user: TestUser): Promise<string> =>
  (await user.post('/sessions', {})).body.sessionId

const acts: Readonly<Record<string, Act>> = {
  'the end of a turn': {
    before: session,
    async run({ made, steps }, { did }, hold, sessionId) {
      steps.push(async () => {
        await hold()
        return [call('put'), call('list')]
      })
      const message = 'Tidy up'
      const turn = { user: { did }, session: sessionId, message, from: 'plugin' } as const
      expect(await made().turns.start(turn).ended).toMatchObject({ status: 'finished' })
    },
    tables: [
      'checkpoints',
      'checkpoint_values',
      'kernel_audit',
      'kernel_effects',
      'kernel_jobs',
      'kernel_notices',
      'kernel_notice_users',
      'kernel_results',
      'kernel_room_state',
      'kernel_run_events',
      'kernel_runs',
      'kernel_steps',
    ],
  },
  'the beginning of a turn': {
    before: session,
    async run({ made }, { did }, hold, sessionId) {
      await hold()
      const turn = { user: { did }, session: sessionId, message: 'Hello', metadata: { a: 1 } }
      const started = made().turns.start(turn)
      await started.begun
      return () => started.ended
    },
    tables: ['kernel_runs', 'kernel_run_requests', 'kernel_sessions', 'kernel_steps'],
  },
  'a turn that is to wait': {
    async run({ made, steps }, { did }, hold) {
      const free = Promise.withResolvers<ScriptedStep>()
      steps.push(() => free.promise)
      const first = made().turns.start({ user: { did }, message: 'Wait' })
      const { sessionId } = await first.begun
      await hold()
      const next = made().turns.start({ user: { did }, session: sessionId, message: 'Next' })
      expect(await next.begun).toMatchObject({ state: 'queued' })
      return () => {
        free.resolve('At last.')
        return Promise.all([first.ended, next.ended])
      }
    },
    tables: ['kernel_waiting_turns', 'kernel_sessions'],
  },
  'words without a model': {
    before: session,
    async run({ made }, { did }, hold, sessionId) {
      await hold()
      await made().sessions.say({ user: { did }, session: sessionId, text: 'Hear.', key: did })
    },
    tables: ['kernel_jobs', 'kernel_notices', 'kernel_runs', 'kernel_said_keys', 'kernel_steps'],
  },
  'what a user has seen': {
    async before(opened, user) {
      const id = await session(opened, user)
      await opened.made().sessions.say({ user: { did: user.did }, session: id, text: 'Hear.' })
      return id
    },
    async run(_, user, hold, sessionId) {
      await hold()
      expect((await user.post('/notices/seen', { sessionId })).body).toEqual({ unread: 0 })
    },
    tables: ['kernel_notices'],
  },
  'the deletion of a session': {
    async before({ made }, { did }) {
      const turn = made().turns.start({ user: { did }, message: 'Hello', from: 'plugin' })
      await turn.ended
      return (await turn.begun).sessionId
    },
    async run(_, user, hold, sessionId) {
      await hold()
      expect(await user.delete(`/sessions/${sessionId}`)).toMatchObject({ status: 200 })
    },
    tables: ['kernel_notices', 'kernel_runs', 'kernel_steps', 'checkpoints'],
  },
}
const cases = Object.entries(acts).flatMap(([name, act]) =>
  act.tables.map((table) => ({ name, act, table })),
)

await onPostgres('nobody is told before it is true', (where) => {
  let opened: Promise<Opened> | undefined
  afterAll(async () => (await opened)?.app.close())

  test.for(cases)('of $name while $table is held', { timeout: 60_000 }, async ({ act, table }) => {
    opened ??= open(where)
    const there = await opened
    const user = await there.app.user()
    const what = (await act.before?.(there, user)) ?? ''
    const { hold, letGo, isWanted } = await holder(where.databaseUrl ?? '')
    let isTold = false
    const told = act
      .run(there, user, () => hold(table), what)
      .then((end) => {
        isTold = true
        return end
      })
    try {
      const isHeldUp = async () => isTold || (await isWanted(table))
      await Promise.race([expect.poll(isHeldUp, { timeout: 30_000 }).toBe(true), told])
      await sleep(150) // long enough for words that do not wait
      expect(isTold).toBe(false)
    } finally {
      await letGo()
    }
    const end = await told
    // A turn that goes on would take the words that the next test has for its own.
    await end?.()
  })
})

/** Sends a message as a client that shows approvals, and answers the question as soon as it is heard. */
async function answerAtOnce(app: TestApp, user: TestUser) {
  const { body } = await user.post('/sessions', {})
  const headers = await user.wallet.headers(app.oracleDid)
  const message = { message: 'Burn it', approvals: true, requestId: randomUUID() }
  const stream = await openStream(`${app.url}/messages/${body.sessionId}`, headers, message)
  const asked = (await stream.until(({ event }) => event === 'interrupt')).at(-1)
  const answer = await user.post(`/runs/${asked?.data.runId}/resume`, { decision: 'approve' })
  expect(answer).toMatchObject({ status: 200 })
  expect(answer.body).toContain('"status":"finished"')
  expect((await stream.rest()).map(({ event }) => event)).toEqual(['done'])
}

await onEachDatabase('a question', (where) => {
  it('can be answered as soon as it is heard', async () => {
    const { app, steps } = await open(where)
    onTestFinished(() => app.close())
    for (let n = 0; n < 5; n++) {
      steps.push(
        () => call('burn'),
        () => 'Burnt.',
      )
      await answerAtOnce(app, await app.user())
    }
  })
})

await onPostgres('a question', (where) => {
  it('is not heard before the database has it', async () => {
    const { app, steps } = await open(where)
    onTestFinished(() => app.close())
    const { hold, letGo, isWanted } = await holder(where.databaseUrl ?? '')
    steps.push(
      async () => {
        await hold('kernel_runs')
        return call('burn')
      },
      () => 'Burnt.',
    )
    const answered = answerAtOnce(app, await app.user())
    await expect.poll(() => isWanted('kernel_runs'), { timeout: 30_000 }).toBe(true)
    await letGo()
    await answered
  })

  it('leaves the audit line of a job before anybody reads that the job is done', async () => {
    const { app } = await open(where)
    onTestFinished(() => app.close())
    const { hold, letGo, isWanted } = await holder(where.databaseUrl ?? '')
    await hold('kernel_audit')
    const { body } = await app.post('/file', { id: randomUUID() })
    await expect.poll(() => isWanted('kernel_audit'), { timeout: 30_000 }).toBe(true)
    await sleep(150)
    const headers = { authorization: 'Bearer the-operator-of-this-test' }
    const stateOf = async () => {
      const { body: list } = await app.get('/jobs?plugin=desk', { headers })
      return list.jobs.find(({ id }: { id: string }) => id === body.id)?.state
    }
    expect(await stateOf()).toBe('running')
    await letGo()
    await expect.poll(stateOf, { timeout: 30_000 }).toBe('done')
  })
})
