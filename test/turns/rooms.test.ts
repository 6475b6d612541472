import { setTimeout as pause } from 'node:timers/promises'
import { expect, it, onTestFinished, vi } from 'vitest'
import { sql } from 'kysely'
import pg from 'pg'
import { z } from 'zod'
import { definePlugin, type Model, type PluginSessions } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { roomNamesMigration } from '../../core/runtime/store/room-state.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'
import { heldModel } from '../support/held-model.ts'
import { silent } from '../support/silent-log.ts'
import { plainSocket, tokensOf } from '../support/sockets.ts'

/** A plugin that keeps a list for everybody in a room. */
const listing = (rooms: string[]) =>
  definePlugin({
    name: 'lists',
    summary: 'Keeps lists.',
    visibility: 'always',
    state: { list: z.array(z.string()).default([]).meta({ scope: 'room' }) },
    setup: ({ rooms, sessions }) => ({ rooms, sessions }),
    jobs: {
      read: {
        input: z.object({ room: z.string() }),
        async run({ room }, ctx) {
          await ctx.rooms.update({ room }, (state) => void state.list.push('by a job'))
          await ctx.sessions.ensure({ user: { did: 'did:key:zJob' }, id: 'made by a job', room })
        },
      },
    },
    tools: {
      lists_add: {
        description: 'Adds to the list.',
        effect: 'write',
        input: z.object({ what: z.string() }),
        run({ what }, { state, room }) {
          rooms.push(room)
          state.list = [...state.list, what]
          return state.list
        },
      },
    },
    routes: {
      'POST /later': {
        auth: 'public',
        input: z.object({ room: z.string() }),
        async run({ room }, { jobs, rooms }) {
          await jobs.later('read', { room })
          return await rooms.read({ room })
        },
      },
    },
  })

await onEachDatabase('rooms of sessions', ({ databaseUrl }) => {
  const open = async (model: Model) => {
    const seen: string[] = []
    const lists = listing(seen)
    let self: NonNullable<(typeof lists)['~types']>['self'] | undefined
    let others: PluginSessions | undefined
    const reader = definePlugin({
      name: 'reader',
      summary: 'Hands out what the lists have.',
      requires: [lists],
      setup: ({ plugins, sessions }) => {
        self = plugins.lists
        others = sessions
      },
    })
    const app = await testApp({
      plugins: [lists, reader],
      model,
      env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
    })
    onTestFinished(() => app.close())
    if (!self || !others) throw new Error('A setup did not run.')
    return { app, seen, others, ...self }
  }
  const add = (what: string) => call('lists_add', { what })

  it('share their state between users, each with a session of their own', async () => {
    const model = scriptedModel([add('tea'), 'Added.', add('milk'), 'Added.', add('ink'), 'Added.'])
    const { app, seen, sessions, rooms } = await open(model)
    const [amina, brian] = [await app.user(), await app.user()]
    const room = '!kitchen:example.org'
    const hers = await sessions.ensure({ user: amina, room, title: 'The kitchen' })
    const his = await sessions.ensure({ user: brian, room })
    expect(hers.isNew && his.isNew).toBe(true)
    expect(his.sessionId).not.toBe(hers.sessionId)
    expect(await sessions.ensure({ user: amina, room })).toEqual({ ...hers, isNew: false })
    await amina.say('Tea', { sessionId: hers.sessionId })
    await brian.say('Milk', { sessionId: his.sessionId })
    await brian.say('Ink for me')
    expect(await rooms.read({ room })).toEqual({ list: ['tea', 'milk'] })
    expect(await rooms.read({ user: brian })).toEqual({ list: ['ink'] })
    expect(await rooms.read({ user: amina })).toEqual({ list: [] })
    expect(seen).toEqual([`lists:${room}`, `lists:${room}`, `${brian.did} ${app.oracleDid}`])
    const { sessions: listed } = (await amina.get('/sessions')).body
    expect(listed).toEqual([
      expect.objectContaining({ ...sessionOf(hers), roomId: room, title: 'The kitchen' }),
    ])
    expect((await brian.post('/sessions')).body.roomId).toBeUndefined()
    expect((await brian.post('/sessions', { room })).body.roomId).toBeUndefined()
    // No user gets into the session of another by naming its room.
    expect((await brian.get(`/messages/${hers.sessionId}`)).status).toBe(404)
  })

  it('get one session a user, however many ask at once', async () => {
    const { app, sessions } = await open(scriptedModel([]))
    const user = await app.user()
    const room = 'hall'
    const asked = await Promise.all(
      Array.from({ length: 30 }, () => sessions.ensure({ user, room })),
    )
    expect(new Set(asked.map(({ sessionId }) => sessionId)).size).toBe(1)
    expect(asked.filter(({ isNew }) => isNew)).toHaveLength(1)
    const byId = await Promise.all(
      Array.from({ length: 30 }, () => sessions.ensure({ user, id: `own ${user.did}`, room })),
    )
    expect(byId.filter(({ isNew }) => isNew)).toHaveLength(1)
  })

  it('are never changed, and no plugin gets into the room of another', async () => {
    const { app, sessions, others, rooms } = await open(scriptedModel([]))
    const user = await app.user()
    const { sessionId } = await sessions.ensure({ user, room: 'attic' })
    const ensure = (own: PluginSessions, room: unknown, id = sessionId) =>
      own.ensure({ user, id, room: room as string }).then(
        ({ isNew }) => isNew,
        (error: { code: string }) => error.code,
      )
    expect(await ensure(sessions, 'attic')).toBe(false)
    expect(await ensure(sessions, undefined)).toBe(false)
    expect(await ensure(sessions, 'cellar')).toBe('CONFLICT')
    expect(await ensure(others, 'attic')).toBe('CONFLICT')
    const plain = (await user.post('/sessions')).body.sessionId
    expect(await ensure(sessions, 'attic', plain)).toBe('CONFLICT')
    for (const bad of ['', 'a b', 'a/b', 'é', 'a'.repeat(201), 7, null])
      expect([bad, await ensure(sessions, bad, `new ${String(bad)}`)]).toEqual([
        bad,
        'INPUT_INVALID',
      ])
    await expect(rooms.read({ room: 'a b' })).rejects.toMatchObject({ code: 'INPUT_INVALID' })
    expect(await ensure(sessions, `${'a'.repeat(199)}#`, `long ${user.did}`)).toBe(true)
  })

  it('are changed from outside while a turn is under way, and its end undoes nothing', async () => {
    const model = heldModel(['Wait', ' '], ['done.'], [add('from the turn')])
    const { app, sessions, rooms } = await open(model)
    const user = await app.user()
    const room = `under-way-${user.did.slice(-8)}`
    const { sessionId } = await sessions.ensure({ user, room })
    const socket = await plainSocket(app.url, sessionId, await tokensOf(user, app.oracleDid))
    const turn = user.say('Add', { sessionId })
    await socket.event('message')
    await expect.poll(() => rooms.read({ room })).toEqual({ list: ['from the turn'] })
    await rooms.update({ room }, (state) => void state.list.push('from outside'))
    model.goOn()
    expect((await turn).status).toBe('finished')
    expect(await rooms.read({ room })).toEqual({ list: ['from the turn', 'from outside'] })
    expect((await user.get(`/capabilities?sessionId=${sessionId}`)).status).toBe(200)
  })

  it('are reached from jobs and routes as well', async () => {
    const { app, rooms, sessions } = await open(scriptedModel([]))
    expect((await app.post('/later', { room: 'garden' })).body).toEqual({ list: [] })
    await expect.poll(() => rooms.read({ room: 'garden' })).toEqual({ list: ['by a job'] })
    const made = () =>
      sessions
        .ensure({ user: { did: 'did:key:zJob' }, id: 'made by a job', room: 'garden' })
        .then(({ isNew }) => isNew)
    await expect.poll(made).toBe(false)
  })

  it('have one name: rows by the other one are moved', async () => {
    const store = await openStore({ databaseUrl, log: silent })
    onTestFinished(() => store.close())
    const [amina, brian] = ['did:web:example.org:users:amina', 'did:key:zBrian']
    const oracle = 'did:ixo:entity:oracle'
    const table = sql.table('kernel_room_state')
    if (!databaseUrl)
      await sql`create table ${table} (room text, plugin text, key text, value text,
        updated_at text, primary key (room, plugin, key))`.execute(store.db)
    const mine = ['lists', 'old']
    const plant = (room: string, plugin: string, key: string, value: string, updated: string) =>
      sql`insert into ${table} (room, plugin, key, value, updated_at)
        values (${room}, ${plugin}, ${key}, ${value}, ${updated})`.execute(store.db)
    const [early, late] = ['2026-01-01T00:00:00.000Z', '2026-02-01T00:00:00.000Z']
    await plant(`${amina}:${oracle}`, 'old', 'alone', '1', early)
    await plant(`${amina}:${oracle}`, 'old', 'newer', '2', late)
    await plant(`${amina} ${oracle}`, 'old', 'newer', '3', early)
    await plant(`${brian}:${oracle}`, 'old', 'older', '4', early)
    await plant(`${brian} ${oracle}`, 'old', 'older', '5', late)
    await plant('lists:!room:example.org', 'old', 'kept', '6', early)
    for (let i = 0; i < 1_100; i++)
      await plant(`did:key:zMany${String(i).padStart(4, '0')}:${oracle}`, 'old', 'many', '7', early)
    await store.db.transaction().execute(roomNamesMigration)
    await store.db.transaction().execute(roomNamesMigration)
    const { rows } = await sql<{ room: string; key: string; value: string; updated_at: string }>`
      select room, key, value, updated_at from ${table}
      where plugin = ${mine[1]} order by value, room`.execute(store.db)
    expect(rows.filter(({ key }) => key !== 'many')).toEqual([
      { room: `${amina} ${oracle}`, key: 'alone', value: '1', updated_at: early },
      { room: `${amina} ${oracle}`, key: 'newer', value: '2', updated_at: late },
      { room: `${brian} ${oracle}`, key: 'older', value: '5', updated_at: late },
      { room: 'lists:!room:example.org', key: 'kept', value: '6', updated_at: early },
    ])
    const many = rows.filter(({ key }) => key === 'many')
    expect(many).toHaveLength(1_100)
    expect(many.every(({ room }) => / did:ixo:entity:oracle$/.test(room))).toBe(true)
  })
})

const sessionOf = ({ sessionId }: { readonly sessionId: string }) => ({ sessionId })

await onPostgres('the room of a session whose row somebody else holds', ({ databaseUrl }) => {
  it('has what the turn wrote before anybody hears that the turn ended', async () => {
    const adding = [call('lists_add', { what: 'tea' }), call('lists_add', { what: 'milk' })]
    const model = scriptedModel(adding.flatMap((step) => [step, 'Added.']))
    const app = await testApp({
      plugins: [listing([])],
      model,
      env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
    })
    onTestFinished(() => app.close())
    const user = await app.user()
    const { sessionId } = await user.say('Tea')
    const holder = new pg.Client(databaseUrl)
    await holder.connect()
    onTestFinished(() => holder.end())
    const stored = async () =>
      (await holder.query(`select value from kernel_room_state where plugin = 'lists'`)).rows[0]
        .value
    await holder.query('begin')
    await holder.query('select * from kernel_room_state for update')
    let isOver = false
    const said = user.say('Milk', { sessionId }).finally(() => (isOver = true))
    await vi.waitFor(() => expect(model.remaining).toBe(0))
    await someoneWaits(holder)
    await pause(200)
    expect(isOver).toBe(false)
    await holder.query('commit')
    expect((await said).status).toBe('finished')
    expect(await stored()).toBe('["tea","milk"]')
  })
})

/** Resolves when another connection waits for a row that this one holds. */
async function someoneWaits(holder: pg.Client): Promise<void> {
  await vi.waitFor(async () => {
    const { rows } = await holder.query(
      `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    expect(rows.length).toBeGreaterThan(0)
  })
}

await onPostgres('words that a plugin says at one of two servers', ({ databaseUrl }) => {
  it('reach a socket at the other', async () => {
    let sessions: PluginSessions | undefined
    const env = { DATABASE_URL: databaseUrl!, ORACLE_MNEMONIC: 'words that both share' }
    const open = (take: (own: PluginSessions) => void) =>
      testApp({
        plugins: [
          definePlugin({
            name: 'bell',
            summary: 'Rings.',
            setup: ({ sessions }) => take(sessions),
          }),
        ],
        model: scriptedModel([]),
        env,
      })
    await using here = await open((own) => (sessions = own))
    await using there = await open(() => undefined)
    const user = await here.user()
    const { sessionId } = (await user.post('/sessions')).body
    const socket = await plainSocket(there.url, sessionId, await tokensOf(user, here.oracleDid))
    await sessions?.say({ user, session: sessionId, text: 'Ding.' })
    expect((await socket.event('message')).content).toBe('Ding.')
    expect(await socket.event('done')).toMatchObject({ status: 'finished' })
  })
})
