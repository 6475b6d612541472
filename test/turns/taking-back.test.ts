import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Database, RuntimeError, type Turns } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestUser } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

/** A plugin that brings messages from elsewhere, brings decisions back, and takes words back. */
function bridge() {
  let made: { readonly turns: Turns; readonly db: Database } | undefined
  const kept: string[] = []
  const state = { fails: false, felled: [] as string[] }
  const plugin = definePlugin({
    name: 'bridge',
    summary: 'Brings messages.',
    visibility: 'always',
    migrations: {
      '001-notes': async (db) => {
        await sql`create table bridge_notes (session text not null, words text not null)`.execute(
          db,
        )
      },
    },
    setup: ({ turns, db }) => {
      made = { turns, db }
    },
    prompt({ message }) {
      kept.push(`prompt: ${message}`)
      return undefined
    },
    tools: {
      fell: {
        description: 'Fells a tree.',
        effect: 'write',
        approve: true,
        input: z.object({ tree: z.string() }),
        run: ({ tree }) => {
          state.felled.push(tree)
          return `felled the ${tree}`
        },
      },
      look: {
        description: 'Looks at trees.',
        effect: 'read',
        foreign: false, // trees have no words
        input: z.object({ at: z.string() }),
        run: ({ at }, { message }) => `a secret ${at}, asked by ${message}`,
      },
    },
    runs: {
      async end({ message, reply, sessionId }, { db }) {
        const words = await message()
        kept.push(`end: ${words} / ${await reply()}`)
        await sql`insert into bridge_notes values (${sessionId}, ${words})`.execute(db)
      },
    },
    async sessionDeleted({ sessionId, did }, { db }) {
      expect(did).toMatch(/^did:/)
      await sql`delete from bridge_notes where session = ${sessionId}`.execute(db)
      if (state.fails) throw new RuntimeError('UNAVAILABLE', 'The notes are locked.')
    },
  })
  return {
    plugin,
    kept,
    state,
    get own() {
      if (!made) throw new Error('The setup did not run.')
      return made
    },
  }
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code,
  )

await onEachDatabase('a plugin that brings messages', ({ databaseUrl }) => {
  const open = async (steps: readonly ScriptedStep[]) => {
    const own = bridge()
    const model = scriptedModel(steps)
    const env = { RUN_LEASE_MS: '2000', ...(databaseUrl && { DATABASE_URL: databaseUrl }) }
    const app = await testApp({ plugins: [own.plugin], model, env })
    onTestFinished(() => app.close())
    return { app, model, kept: own.kept, state: own.state, ...own.own }
  }
  const waiting = async (turns: Turns, user: TestUser, message = 'Fell the oak') => {
    const asked = turns.start({ user, message, approvals: 'events' })
    expect((await asked.ended).status).toBe('waiting')
    const { runId = '', sessionId, requestId } = await asked.begun
    return { runId, session: sessionId, requestId }
  }

  it('brings a person’s decisions, of which the first counts', async () => {
    const { app, turns, state } = await open([
      call('fell', { tree: 'oak' }),
      'The oak is down.',
      call('fell', { tree: 'elm' }),
      'The ash is down.',
      call('fell', { tree: 'yew' }),
      (request) => `Not done: ${JSON.stringify(request.messages.at(-1))}`,
    ])
    const [user, other] = [await app.user(), await app.user()]
    const first = await waiting(turns, user)
    const theirs = turns.resume({ user: other, runId: first.runId, decision: 'approve' })
    expect(await codeOf(theirs.begun)).toBe('NOT_FOUND')
    const yes = { user: { did: user.did }, runId: first.runId, decision: 'approve' } as const
    const both = [turns.resume(yes), turns.resume(yes)]
    expect((await Promise.all(both.map(({ begun }) => codeOf(begun)))).sort()).toEqual([
      'CONFLICT',
      'done',
    ])
    await expect.poll(() => state.felled).toEqual(['oak'])

    const second = await waiting(turns, user, 'Fell the elm')
    const edited = turns.resume({
      user,
      runId: second.runId,
      decision: 'edit',
      args: { tree: 'ash' },
    })
    expect(await edited.ended).toEqual({ status: 'finished', text: 'The ash is down.' })
    const third = await waiting(turns, user, 'Fell the yew')
    const no = { user, runId: third.runId, decision: 'reject', reason: 'it is old' } as const
    expect((await turns.resume(no).ended).text).toMatch(/said no: .*it is old/)
    expect(state.felled).toEqual(['oak', 'ash'])
    const empty = turns.resume({ user, runId: third.runId, decision: 'edit' })
    expect(await codeOf(empty.begun)).toBe('INPUT_INVALID')
  })

  it('stops what waits for a person, and nothing of anybody else', async () => {
    const { app, turns } = await open([call('fell', { tree: 'oak' })])
    const [user, other] = [await app.user(), await app.user()]
    const { session, requestId } = await waiting(turns, user)
    expect(await codeOf(turns.abort({ user: other, session }))).toBe('NOT_FOUND')
    expect(await turns.abort({ user, session, requestId })).toBe(true)
    expect(await turns.abort({ user, session })).toBe(false)
    expect((await user.get(`/sessions/${session}/run`)).body.waiting).toBeUndefined()
  })

  it('takes words back, everywhere that they stand', async () => {
    const { app, model, turns, db, kept } = await open([
      call('look', { at: 'hazel' }),
      'I saw a hazel.',
      'Later.',
      'What was it?',
    ])
    const [user, other] = [await app.user(), await app.user()]
    const turn = turns.start({ user, message: 'Look at the hazel', metadata: { a: 'hazel' } })
    await turn.ended
    const { sessionId: session, requestId, runId } = await turn.begun
    await user.say('Now something else', { sessionId: session })
    expect(kept).toContain('prompt: Look at the hazel')
    await expect.poll(() => kept).toContain('end: Look at the hazel / I saw a hazel.')

    expect(await codeOf(turns.redact({ user: other, session, requestId }))).toBe('NOT_FOUND')
    expect(await turns.redact({ user, session, requestId: 'unheard of' })).toBe(false)
    expect(await turns.redact({ user, session, requestId })).toBe(true)
    expect(await turns.redact({ user, session, requestId })).toBe(true)
    const history = await user.get(`/messages/${session}`)
    expect(JSON.stringify(history.body)).not.toContain('hazel')
    expect(history.body.messages).toMatchObject([
      { type: 'human', content: '[removed]' },
      { type: 'ai', toolCalls: [{ name: 'look', args: {}, output: '[removed]' }] },
      { type: 'ai', content: '[removed]' },
      { type: 'human', content: 'Now something else' },
      { type: 'ai', content: 'Later.' },
    ])
    const replay = await user.get(`/runs/${runId}`)
    expect(JSON.stringify(replay.body)).not.toContain('hazel')
    expect(JSON.stringify((await user.get('/sessions')).body)).not.toContain('hazel')
    await user.say('And now?', { sessionId: session })
    const sent = JSON.stringify(model.requests.at(-1))
    expect(sent).toContain('[removed]')
    expect(sent).not.toContain('hazel')
    for (const table of ['steps', 'run_events', 'run_requests', 'results', 'effects', 'sessions']) {
      const { rows } = await sql`select * from ${sql.ref(`kernel_${table}`)}`.execute(db)
      expect(JSON.stringify(rows), table).not.toContain('hazel')
    }
  })

  it('takes words back whose answer is under way or waits', async () => {
    const { app, turns, state } = await open([call('fell', { tree: 'oak' }), 'Hello.'])
    const user = await app.user()
    const first = await waiting(turns, user, 'Fell the oak behind the house')
    const { session } = first
    const later = { user, session, message: 'A queued secret', requestId: 'later' }
    expect((await turns.start(later).begun).state).toBe('queued')
    expect(await turns.redact({ user, session, requestId: 'later' })).toBe(true)
    expect(await turns.redact({ user, session, requestId: first.requestId })).toBe(true)
    const history = JSON.stringify((await user.get(`/messages/${session}`)).body)
    expect(history).not.toMatch(/oak|house|secret/)
    expect(state.felled).toEqual([])
    // The name of a turn that never began is free again.
    expect((await turns.start(later).ended).text).toBe('Hello.')
  })

  if (databaseUrl)
    it('takes words back that another replica remembers and was not told of', async () => {
      const here = await open(['I saw a hazel.', 'What was it?'])
      const there = await open([])
      const user = { did: (await here.app.user()).did }
      const first = here.turns.start({ user, message: 'Look at the hazel' })
      await first.ended
      const { sessionId: session, requestId } = await first.begun
      expect(await there.turns.redact({ user, session, requestId })).toBe(true)
      expect((await here.turns.start({ user, session, message: 'And now?' }).ended).status).toBe(
        'finished',
      )
      const sent = JSON.stringify(here.model.requests.at(-1))
      expect(sent).toContain('[removed]')
      expect(sent).not.toContain('hazel')
    })

  it('deletes what it keeps of a session with the session, or nothing of both', async () => {
    const { app, db, kept, state } = await open(['Hello.'])
    const user = await app.user()
    const { sessionId } = await user.say('Keep this')
    await expect.poll(() => kept).toContain('end: Keep this / Hello.')
    const notes = async () =>
      (await sql`select * from bridge_notes where session = ${sessionId}`.execute(db)).rows.length
    await expect.poll(notes).toBe(1)
    state.fails = true
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(503)
    expect([await notes(), (await user.get(`/messages/${sessionId}`)).status]).toEqual([1, 200])
    state.fails = false
    expect((await user.delete(`/sessions/${sessionId}`)).status).toBe(200)
    expect([await notes(), (await user.get(`/messages/${sessionId}`)).status]).toEqual([0, 404])
  })
})
