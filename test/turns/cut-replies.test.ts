import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type FollowedEvent, type Turns } from '#core'
import {
  call,
  scriptedModel,
  type ScriptedStep,
  testApp,
  TestClock,
  type TestUser,
} from '#core/testing'
import { onEachDatabase, onPostgres } from '../support/each-database.ts'

/** A plugin that hears what a session says, and knows how far its person listened. */
function ear() {
  let own: Turns | undefined
  const felling = Promise.withResolvers<void>()
  const felled = Promise.withResolvers<void>()
  const did: string[] = []
  const plugin = definePlugin({
    name: 'ear',
    summary: 'Listens.',
    visibility: 'always',
    setup: ({ turns }) => {
      own = turns
    },
    tools: {
      look: {
        description: 'Looks at trees.',
        effect: 'read',
        foreign: false,
        input: z.object({}),
        run: () => 'an oak',
      },
      fell: {
        description: 'Fells a tree.',
        effect: 'write',
        input: z.object({ tree: z.string() }),
        approve: ({ tree }) => tree === 'yew',
        run: async ({ tree }) => {
          felling.resolve()
          await felled.promise
          did.push(tree)
          return `felled the ${tree}`
        },
      },
    },
  })
  return {
    plugin,
    felling: felling.promise,
    fell: felled.resolve,
    did,
    get turns() {
      if (!own) throw new Error('The setup did not run.')
      return own
    },
  }
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: { code?: string }) => error.code,
  )

/** Collects what somebody who follows a session hears. */
function heardBy(events: AsyncIterable<FollowedEvent>) {
  const heard: FollowedEvent[] = []
  const over = (async () => {
    for await (const event of events) heard.push(event)
  })()
  const names = (runId?: string) =>
    heard.filter((one) => runId === undefined || one.runId === runId).map(({ event }) => event)
  return { heard, over, names }
}

await onEachDatabase('a reply that its user stopped listening to', ({ databaseUrl }) => {
  async function open(steps: readonly ScriptedStep[]) {
    const own = ear()
    const model = scriptedModel(steps)
    const env = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
    const app = await testApp({ plugins: [own.plugin], model, env })
    onTestFinished(() => app.close())
    const user = await app.user()
    const history = async (session: string) =>
      (await user.get(`/messages/${session}`)).body.messages as Record<string, unknown>[]
    const { plugin: _, ...rest } = own
    return { app, model, user, history, ear: own, ...rest }
  }

  it('ends there in history, replay and the next request, and says so', async () => {
    const { model, user, history, ear, app } = await open([
      { reasoning: 'Trees.', text: 'The oak is tall. The elm is secret.', provider: { sign: 1 } },
      'Yes.',
    ])
    const said = await user.say('Tell me of trees')
    const { sessionId: session } = said
    const { runId } = said.of('run')[0] as { runId: string }
    const other = await app.user()
    const where = { session, runId, chars: 20 }
    expect(await codeOf(ear.turns.cut({ user: other, ...where }))).toBe('NOT_FOUND')
    expect(await codeOf(ear.turns.cut({ user, ...where, chars: -1 }))).toBe('INPUT_INVALID')
    expect(await codeOf(ear.turns.cut({ user, ...where, runId: 'none' }))).toBe('NOT_FOUND')
    expect(await ear.turns.cut({ user, ...where, chars: 1000 })).toBe(false)
    expect(await ear.turns.cut({ user, ...where })).toBe(true)
    expect(await ear.turns.cut({ user, ...where })).toBe(false)
    expect(await ear.turns.cut({ user, ...where, chars: 30 })).toBe(false)
    expect((await history(session)).at(-1)).toMatchObject({
      content: 'The oak is tall. The',
      isComplete: false,
      cut: true,
    })
    expect(JSON.stringify((await user.get(`/runs/${runId}`)).body)).not.toContain('elm')
    await user.say('And?', { sessionId: session })
    const sent = model.requests.at(-1)?.messages.find(({ role }) => role === 'assistant')
    expect(sent).toMatchObject({ content: 'The oak is tall. The [interrupted here by the user]' })
    expect(sent).not.toHaveProperty('provider')
    expect(JSON.stringify(model.requests.at(-1))).not.toContain('elm')

    expect(await ear.turns.cut({ user, ...where, chars: 7 })).toBe(true)
    expect((await history(session))[1]).toMatchObject({ content: 'The oak', cut: true })
  })

  it.each([
    ['Hello world, how are you?', 8, 'Hello'],
    ['Hello world, how are you?', 11, 'Hello world'],
    ['Hello world, how are you?', 5, 'Hello'],
    ['Hello world.  ', 12, 'Hello world.  '],
    ['Hello', 3, ''],
    ['Hello', 0, ''],
    ['Hello', 99, 'Hello'],
    ['今日は良い天気です', 2, '今日'],
    ['A family 👨‍👩‍👧 came', 12, 'A family'],
    [`${'long '.repeat(5000)}end`, 20_002, 'long '.repeat(4000).trimEnd()],
  ])('of %j up to %i ends with a whole word', async (text, chars, heard) => {
    const { user, history, ear } = await open([{ text: [text] }])
    const said = await user.say('Speak')
    const { sessionId: session } = said
    const { runId } = said.of('run')[0] as { runId: string }
    expect(await ear.turns.cut({ user, session, runId, chars })).toBe(heard !== text)
    const [, reply] = await history(session)
    expect(reply?.content ?? '').toBe(heard)
    expect(reply?.cut).toBe(heard === '' || heard === text ? undefined : true)
  })

  it('leaves no message where nothing was heard, and calls with their results', async () => {
    const { user, history, ear, model } = await open([
      'Never heard.',
      { text: 'I look.', calls: [{ call: 'look', args: {} }] },
      'It is an oak.',
      'Yes.',
    ])
    const first = await user.say('Speak')
    const { sessionId: session } = first
    const runOf = (said: typeof first) => (said.of('run')[0] as { runId: string }).runId
    expect(await ear.turns.cut({ user, session, runId: runOf(first), chars: 0 })).toBe(true)
    expect(await history(session)).toMatchObject([{ content: 'Speak' }])

    const second = await user.say('Look', { sessionId: session })
    const cut = { user, session, runId: runOf(second) }
    expect(await ear.turns.cut({ ...cut, chars: 'I look.'.length })).toBe(true)
    const line = {
      content: 'I look.',
      cut: true,
      isComplete: false,
      toolCalls: [{ name: 'look', status: 'done', output: 'an oak' }],
    }
    expect((await history(session)).slice(1)).toMatchObject([{ content: 'Look' }, line])
    await user.say('And?', { sessionId: session })
    const told = model.requests.at(-1)?.messages.map(({ role, content }) => [role, content])
    expect(told?.slice(-4)).toEqual([
      ['assistant', 'I look.'],
      ['tool', 'an oak'],
      ['assistant', '[interrupted here by the user]'],
      ['user', 'And?'],
    ])
    expect(await ear.turns.cut({ ...cut, chars: 0 })).toBe(true)
    expect((await history(session))[2]).toMatchObject({ ...line, content: '' })
  })

  it('is stopped first where it still goes on', async () => {
    const text = Array.from({ length: 2000 }, (_, nth) => `word${nth} `)
    const { user, history, ear } = await open([{ text, paceMs: 20 }])
    const turn = ear.turns.start({ user, message: 'Count' })
    const { sessionId: session, runId = '' } = await turn.begun
    const follower = heardBy(ear.turns.follow({ user, session }))
    await expect
      .poll(() => follower.names().filter((name) => name === 'message').length > 3)
      .toBe(true)
    expect(await ear.turns.cut({ user, session, runId, chars: 'word0 word1'.length })).toBe(true)
    expect((await turn.ended).status).toBe('aborted')
    expect((await history(session)).at(-1)).toMatchObject({ content: 'word0 word1', cut: true })
    await expect.poll(() => follower.names()).toContain('cut')
    expect(follower.heard.at(-1)).toMatchObject({ event: 'cut', runId, data: { runId, chars: 11 } })
  })

  it('lets a write come to its end, and begins no other', async () => {
    const { user, history, ear } = await open([
      { text: 'I fell it.', calls: [{ call: 'fell', args: { tree: 'oak' } }] },
      call('fell', { tree: 'elm' }),
      'Done.',
    ])
    const turn = ear.turns.start({ user, message: 'Fell the trees' })
    const { sessionId: session, runId = '' } = await turn.begun
    await ear.felling
    let isCut = false
    const cutting = ear.turns.cut({ user, session, runId, chars: 6, finishWrites: true })
    void cutting.then(() => (isCut = true))
    // Two looks at the run, of which neither may stop the write.
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect([isCut, ear.did]).toEqual([false, []])
    ear.fell()
    expect(await cutting).toBe(true)
    expect((await turn.ended).status).toBe('aborted')
    expect(ear.did).toEqual(['oak'])
    expect((await history(session)).at(-1)).toMatchObject({
      content: 'I fell',
      cut: true,
      toolCalls: [{ name: 'fell', status: 'done', output: 'felled the oak' }],
    })
  })

  it('is told to who follows the session, with every run, whoever began it', async () => {
    const { app, user, ear } = await open(['One.', 'Two.', 'Three.'])
    const first = await user.say('1')
    const { sessionId: session, runId: since } = first
    const leaving = new AbortController()
    // From the first run on: who follows is not there at once, and would miss what is said meanwhile.
    const [one, two] = [
      heardBy(ear.turns.follow({ user, session, since, signal: leaving.signal })),
      heardBy(ear.turns.follow({ user, session, since })),
    ]
    const theirs = ear.turns.follow({ user: await app.user(), session })
    expect(await codeOf(heardBy(theirs).over)).toBe('NOT_FOUND')
    await user.say('2', { sessionId: session })
    const turn = ear.turns.start({ user, session, message: '3', from: 'plugin' })
    const { runId } = await turn.begun
    await turn.ended
    for (const { names } of [one, two])
      await expect.poll(() => names().filter((name) => name === 'done').length).toBe(3)
    expect(one.heard).toEqual(two.heard)
    expect(one.names(runId)).toEqual(['run', 'message', 'done'])
    expect(one.heard.find(({ event }) => event === 'run')?.requestId).toBeTruthy()
    leaving.abort()
    await one.over
    // Who comes later goes back to a run, and hears all that came after it.
    const late = heardBy(ear.turns.follow({ user, session, since: runId ?? '' }))
    await expect.poll(() => late.names()).toEqual(['run', 'message', 'done'])
    const later = heardBy(ear.turns.follow({ user, session, since }))
    await expect.poll(() => later.heard).toEqual(two.heard)
    await user.delete(`/sessions/${session}`)
    await two.over
  })
})

type Ear = ReturnType<typeof ear>

/** A session whose agent asks whether it may fell a yew, and what somebody who follows it hears. */
async function asked(user: TestUser, begins: Ear, hears: Ear) {
  const turn = begins.turns.start({ user, message: 'Fell the yew', approvals: 'events' })
  const { sessionId: session, runId = '' } = await turn.begun
  const follower = heardBy(hears.turns.follow({ user, session }))
  await expect.poll(() => follower.names()).toEqual(['run', 'tool_call', 'interrupt', 'done'])
  const closed = () => follower.heard.filter(({ event }) => event === 'done').slice(1)
  const ends = (status: string) => ({ event: 'done', runId, data: { runId, status } })
  return { session, follower, closed, ends }
}

await onEachDatabase('a question that nobody decides', ({ databaseUrl }) => {
  it.each(['is stopped', 'gives way to a newer message', 'waits too long'])(
    'is over for who follows the session: it %s',
    async (how) => {
      const own = ear()
      const model = scriptedModel([call('fell', { tree: 'yew' }), 'Something else.'])
      const env = {
        APPROVAL_RETENTION_DAYS: '1',
        ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      }
      await using app = await testApp({ plugins: [own.plugin], model, env, clock: new TestClock() })
      const user = await app.user()
      const { session, closed, ends } = await asked(user, own, own)
      if (how === 'is stopped') expect(await own.turns.abort({ user, session })).toBe(true)
      else if (how === 'waits too long') await app.clock.advance('3d')
      else await user.say('Something else', { sessionId: session })
      await expect.poll(closed).not.toEqual([])
      expect(closed()[0]).toMatchObject(ends(how === 'is stopped' ? 'aborted' : 'interrupted'))
      expect(own.did).toEqual([])
    },
  )
})

await onPostgres('a reply that another replica says', ({ databaseUrl }) => {
  it('is followed, cut, and told to be cut here', async () => {
    const text = Array.from({ length: 2000 }, (_, nth) => `word${nth} `)
    const replica = async () => {
      const own = ear()
      const model = scriptedModel([{ text, paceMs: 20 }])
      const options = { plugins: [own.plugin], model, env: { DATABASE_URL: databaseUrl ?? '' } }
      const app = await testApp(options)
      onTestFinished(() => app.close())
      return { app, ear: own }
    }
    const [here, there] = [await replica(), await replica()]
    const user = await here.app.user()
    const turn = here.ear.turns.start({ user, message: 'Count' })
    const { sessionId: session, runId = '' } = await turn.begun
    const follower = heardBy(there.ear.turns.follow({ user, session }))
    await expect
      .poll(() => follower.names().filter((name) => name === 'message').length > 3)
      .toBe(true)
    const cut = { user, session, runId, chars: 7, finishWrites: true }
    expect(await there.ear.turns.cut(cut)).toBe(true)
    expect((await turn.ended).status).toBe('aborted')
    await expect.poll(() => follower.names().at(-1)).toBe('cut')
    const { messages } = (await user.get(`/messages/${session}`)).body
    expect(messages.at(-1)).toMatchObject({ content: 'word0', cut: true })
  })

  it('asks something there, and is stopped here', async () => {
    const replica = async () => {
      const own = ear()
      const model = scriptedModel([call('fell', { tree: 'yew' })])
      const options = { plugins: [own.plugin], model, env: { DATABASE_URL: databaseUrl ?? '' } }
      const app = await testApp(options)
      onTestFinished(() => app.close())
      return { app, ear: own }
    }
    const [here, there] = [await replica(), await replica()]
    const user = await here.app.user()
    const { session, closed, ends } = await asked(user, here.ear, there.ear)
    expect(await here.ear.turns.abort({ user, session })).toBe(true)
    await expect.poll(closed).toMatchObject([ends('aborted')])
  })
})
