import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type OutsideTools, type User } from '#core'
import { scriptedModel, testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

const env = { ORACLE_MNEMONIC: 'words of the test of calls outside of turns', NODE_ENV: 'test' }

const shed = definePlugin({
  name: 'shed',
  summary: 'Keeps tools.',
  visibility: 'on-demand',
  state: {
    uses: z.number().default(0).meta({ scope: 'room' }),
    isShut: z.boolean().default(false).meta({ scope: 'room' }),
    seen: z.number().default(0),
  },
  tools: {
    use_rake: {
      description: 'Uses the rake.',
      input: z.object({}),
      run: (_, { state, callKey, approvals, session }) => {
        state.seen++
        return { uses: ++state.uses, seen: state.seen, callKey, approvals, session: session.id }
      },
    },
    saw: {
      description: 'Saws.',
      input: z.object({ wood: z.string() }),
      approve: ({ wood }) => wood === 'oak',
      run: ({ wood }) => `sawed ${wood}`,
    },
    shut: {
      description: 'Shuts the shed.',
      input: z.object({ isShut: z.boolean() }),
      run: ({ isShut }, { state }) => void (state.isShut = isShut),
    },
    open_door: {
      description: 'There while the shed is shut.',
      effect: 'read',
      input: z.object({}),
      enabled: ({ state }) => state.isShut,
      run: () => 'creaks',
    },
    twice: {
      description: 'May be called twice a minute.',
      effect: 'read',
      input: z.object({}),
      limit: { max: 2, perMs: 60_000 },
      run: () => 'yes',
    },
    paint: {
      description: 'Needs a capability.',
      input: z.object({}),
      can: { can: 'shed/paint' },
      run: () => 'painted',
    },
  },
  subAgents: { helper: { description: 'Helps.', prompt: 'Help.' } },
})

const granted = definePlugin({
  name: 'cellar',
  summary: 'For those who may.',
  can: 'cellar/enter',
  tools: { descend: { description: 'Goes down.', input: z.object({}), run: () => 'dark' } },
})
const silent = definePlugin({
  name: 'attic',
  summary: 'For nobody.',
  visibility: 'silent',
  tools: { climb: { description: 'Goes up.', input: z.object({}), run: () => 'dust' } },
})

/** Lets a test reach the tools as a plugin does. */
const door = definePlugin({
  name: 'door',
  summary: 'Calls tools outside of turns.',
  visibility: 'silent',
  setup: ({ tools }): { tools: OutsideTools } => ({ tools }),
  routes: {
    'GET /door': {
      run: async (_, { self, user }) => (await self.tools.list({ user })).map(({ name }) => name),
    },
    'POST /door/:name': {
      input: z.object({
        name: z.string(),
        args: z.any(),
        decided: z.literal('approve').optional(),
      }),
      run: async ({ name, args, decided }, { self, user }) => {
        const call = { user: user as User, name, args, ...(decided && { decided }) }
        const { text, value, isCut } = await self.tools.call(call)
        return { text, value, isCut }
      },
    },
  },
})

await onEachDatabase('tools called outside of turns', ({ databaseUrl }) => {
  let app: TestApp
  let user: TestUser
  const boot = (more: object = {}) =>
    testApp({
      plugins: [shed, granted, silent, door],
      model: scriptedModel([]),
      env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }), ...more },
    })
  beforeAll(async () => {
    app = await boot()
    user = await app.user()
  })
  afterAll(() => app?.close())
  const call = (name: string, args: object = {}, more: object = {}, of = user) =>
    of.post(`/door/${name}`, { args, ...more })

  it('are those of the user, without kernel, sub-agents and silent plugins', async () => {
    const usual = ['use_rake', 'saw', 'shut', 'twice', 'paint']
    expect((await user.get('/door')).body).toEqual(usual)
    const other = await app.user()
    await other.granted('cellar/enter')
    expect((await other.get('/door')).body).toEqual([...usual, 'descend'])
    await call('shut', { isShut: true })
    expect((await user.get('/door')).body).toContain('open_door')
    expect((await call('open_door')).body.text).toBe('creaks')
    await call('shut', { isShut: false })
    expect((await call('open_door')).body.code).toBe('FORBIDDEN')
    for (const name of ['load_capability', 'call_helper', 'nothing'])
      expect((await call(name)).body.code).toBe('NOT_FOUND')
    for (const name of ['climb', 'descend']) expect((await call(name)).status).toBeGreaterThan(400)
  })

  it('keep the state of the room, begin that of a session anew, and have keys of their own', async () => {
    const mine = await app.user()
    const uses = async () => (await call('use_rake', {}, {}, mine)).body.value
    const [one, two] = [await uses(), await uses()]
    expect([one, two]).toMatchObject([
      { uses: 1, seen: 1, approvals: false },
      { uses: 2, seen: 1 },
    ])
    expect(one.callKey).not.toBe(two.callKey)
  })

  it('ask a person as their arguments are, and run what was decided', async () => {
    expect((await call('saw', { wood: 'pine' })).body.text).toBe('sawed pine')
    const asked = await call('saw', { wood: 'oak' })
    expect([asked.status, asked.body.code]).toEqual([409, 'APPROVAL_NEEDED'])
    expect((await call('saw', { wood: 'oak' }, { decided: 'approve' })).body.text).toBe('sawed oak')
    const wrong = await call('saw', { wood: 7 })
    expect([wrong.status, wrong.body.code]).toEqual([400, 'INVALID_INPUT'])
  })

  it('hold the limits and the rights of the user', async () => {
    const mine = await app.user()
    const statuses = []
    for (let n = 0; n < 3; n++) statuses.push((await call('twice', {}, {}, mine)).status)
    expect(statuses).toEqual([200, 200, 429])
    // The delegation of a test's user grants everything; that of no delegation grants nothing.
    expect((await call('paint')).body.text).toBe('painted')
    const { body } = await user.post('/keys', { name: 'a key' })
    const bare = await app.post(
      '/door/paint',
      { args: {} },
      { authorization: `Bearer ${body.key}` },
    )
    expect([bare.status, bare.body.code]).toEqual([403, 'FORBIDDEN'])
  })

  it('are for those who may talk to the agent', async () => {
    const closed = await boot({ ACCESS: 'granted' })
    try {
      const stranger = await closed.user()
      expect((await stranger.get('/door')).body.code).toBe('NOT_GRANTED')
      expect((await call('saw', { wood: 'pine' }, {}, stranger)).body.code).toBe('NOT_GRANTED')
      await stranger.granted('oracle/call')
      expect((await call('saw', { wood: 'pine' }, {}, stranger)).body.text).toBe('sawed pine')
    } finally {
      await closed.close()
    }
  })
})
