import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type PluginSessions, RuntimeError, type Turns } from '#core'
import {
  call,
  resultOf,
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestUser,
} from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

/** A plugin that brings messages from rooms elsewhere, keeps what stands on a board there, and turns away who says so. */
function bridge() {
  let made: { readonly turns: Turns; readonly sessions: PluginSessions } | undefined
  const asked: string[] = []
  const plugin = definePlugin({
    name: 'bridge',
    summary: 'Brings messages.',
    visibility: 'always',
    state: { board: z.array(z.string()).default([]).meta({ scope: 'room' }) },
    setup: ({ turns, sessions }) => {
      made = { turns, sessions }
    },
    tools: {
      pin: {
        description: 'Pins something to the board.',
        effect: 'write',
        input: z.object({ what: z.string() }),
        run: ({ what }, { state }) => (state.board = [...state.board, what]).join(),
      },
    },
    runs: {
      admit({ sessionId, metadata }) {
        asked.push(sessionId)
        if (metadata?.isUnpaid) throw new RuntimeError('PAYMENT_REQUIRED', 'Payment needed.')
      },
    },
  })
  return {
    plugin,
    asked,
    get own() {
      if (!made) throw new Error('The setup did not run.')
      return made
    },
  }
}

const unpaid = { message: 'Hello', metadata: { isUnpaid: true } }

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'begun',
    (error: { code?: string }) => error.code,
  )

await onEachDatabase('a turn that begins a session', ({ databaseUrl }) => {
  const open = async (
    steps: readonly ScriptedStep[] = Array.from({ length: 40 }, () => 'Yes.'),
  ) => {
    const own = bridge()
    const app = await testApp({
      plugins: [own.plugin],
      model: scriptedModel(steps),
      env: databaseUrl ? { DATABASE_URL: databaseUrl } : {},
    })
    onTestFinished(() => app.close())
    return { app, asked: own.asked, ...own.own }
  }
  const listed = async (user: TestUser): Promise<{ sessionId: string; roomId?: string }[]> =>
    (await user.get('/sessions')).body.sessions
  const historyOf = async (user: TestUser, sessionId: string): Promise<{ type: string }[]> =>
    (await user.get(`/messages/${sessionId}`)).body.messages

  it('puts it into the room, where users have a session each and share what is kept', async () => {
    const pin = (what: string) => call('pin', { what })
    const { app, turns } = await open([
      pin('tea'),
      'Pinned.',
      pin('milk'),
      (request) => String(resultOf(request, 'pin')),
    ])
    const [amina, brian] = [await app.user(), await app.user()]
    const room = '!kitchen:example.org'
    const hers = turns.start({ user: amina, room, message: 'Tea' })
    expect((await hers.ended).status).toBe('finished')
    const his = turns.start({ user: brian, room, message: 'Milk' })
    expect((await his.ended).text).toBe('tea,milk')
    expect((await his.begun).sessionId).not.toBe((await hers.begun).sessionId)
    expect(await listed(brian)).toMatchObject([
      { sessionId: (await his.begun).sessionId, roomId: room },
    ])
  })

  it('goes on in the session of the room that the user has, or in the one that is named', async () => {
    const { app, turns } = await open()
    const user = await app.user()
    const [first, second] = ['one', 'two'].map((message) =>
      turns.start({ user, room: 'hall', message }),
    )
    const sessions = await Promise.all(
      [first, second].map(async (t) => (await t?.begun)?.sessionId),
    )
    expect(new Set(sessions).size).toBe(1)
    const named = { user, session: `named ${user.did}`, message: 'three' }
    expect((await turns.start({ ...named, room: 'attic' }).begun).sessionId).toBe(named.session)
    expect((await turns.start({ ...named, room: 'attic' }).ended).status).toBe('finished')
    expect((await turns.start(named).ended).status).toBe('finished')
    expect((await listed(user)).map(({ roomId }) => roomId).sort()).toEqual(['attic', 'hall'])
  })

  it('is refused where the session stands in another room, and where the room can be none', async () => {
    const { app, turns, asked } = await open()
    const user = await app.user()
    const { sessionId: plain } = (await user.post('/sessions')).body
    const kept = turns.start({ user, room: 'attic', message: 'Hello' })
    const { sessionId } = await kept.begun
    await kept.ended
    const start = (session: string | undefined, room: string) =>
      codeOf(turns.start({ user, session, room, message: 'Hello' }).begun)
    expect(await start(plain, 'attic')).toBe('CONFLICT')
    expect(await start(sessionId, 'cellar')).toBe('CONFLICT')
    asked.length = 0
    for (const bad of ['', 'a b', 'a/b', 'é', 'a'.repeat(201), 7 as unknown as string])
      expect([bad, await start(undefined, bad)]).toEqual([bad, 'INPUT_INVALID'])
    expect(asked).toEqual([])
    expect(await listed(user)).toHaveLength(2)
    expect(await historyOf(user, plain)).toEqual([])
  })

  it('makes it the plugin’s own, where its words without a session go', async () => {
    const { app, turns, sessions } = await open()
    const user = await app.user()
    await user.post('/sessions')
    const first = turns.start({ user, message: 'Hello' })
    await first.ended
    const second = turns.start({ user, message: 'Hello again' })
    await second.ended
    const { sessionId } = await second.begun
    expect(sessionId).not.toBe((await first.begun).sessionId)
    expect((await sessions.say({ user, text: 'Ding.' })).sessionId).toBe(sessionId)
    expect(await listed(user)).toHaveLength(3)
  })

  it('leaves no session when it is refused, and keeps one that was there', async () => {
    const { app, turns, sessions } = await open()
    const user = await app.user()
    const session = `named ${user.did}`
    for (const where of [{}, { session }, { room: 'hall' }, { session, room: 'hall' }])
      expect(
        await codeOf(turns.start({ user, ...unpaid, ...where, whenBusy: 'refuse' }).begun),
      ).toBe('PAYMENT_REQUIRED')
    expect(await listed(user)).toEqual([])
    const kept = await sessions.ensure({ user, id: session, room: 'hall' })
    for (const where of [{ session }, { room: 'hall' }])
      expect(await codeOf(turns.start({ user, ...unpaid, ...where }).begun)).toBe(
        'PAYMENT_REQUIRED',
      )
    expect(await listed(user)).toMatchObject([{ sessionId: kept.sessionId }])
  })

  it('stays when a start beside it is refused, and no turn is lost with it', async () => {
    const { app, turns } = await open()
    const user = await app.user()
    const outcomes = await Promise.all(
      Array.from({ length: 16 }, async (_, i) => {
        const turn = turns.start({
          user,
          room: 'crowd',
          ...(i % 2 === 0 ? unpaid : { message: `Hello ${i}` }),
        })
        const code = await codeOf(turn.begun)
        return code === 'begun' ? (await turn.ended).status : code
      }),
    )
    expect(outcomes).toEqual(outcomes.map((_, i) => (i % 2 === 0 ? expect.anything() : 'finished')))
    const [only, ...others] = await listed(user)
    expect(others).toEqual([])
    const messages = await historyOf(user, only?.sessionId ?? '')
    expect(messages.filter(({ type }) => type === 'human')).toHaveLength(8)
  })
})
