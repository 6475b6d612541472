import { randomUUID } from 'node:crypto'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import {
  definePlugin,
  type Jobs,
  type Notice,
  type PluginSessions,
  type RunEnding,
  type Turns,
} from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestUser } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { heldModel } from '../support/held-model.ts'

/** A plugin that does all of which users hear, and how a test has it do so. */
function caller(name: string) {
  interface Reach {
    readonly turns: Turns
    readonly sessions: PluginSessions
    readonly jobs: Jobs<{ fail: z.ZodObject }>
  }
  let reach: Reach | undefined
  const ends: (Pick<RunEnding, 'status' | 'cause'> & { metadata: unknown })[] = []
  const begun: string[] = []
  const plugin = definePlugin({
    name,
    summary: 'Calls users.',
    visibility: 'always',
    jobs: { fail: { input: z.object({}), run: (_, { job }) => job.giveUp('No line.') } },
    setup({ turns, sessions, jobs }) {
      reach = { turns, sessions, jobs }
      return undefined
    },
    tools: {
      [`${name}_ring`]: {
        description: 'Rings somebody.',
        input: z.object({}),
        approve: true,
        run: () => 'rang',
      },
    },
    runs: {
      begin: ({ requestId }) => void begun.push(requestId),
      end: ({ status, cause, metadata }) => void ends.push({ status, cause, metadata }),
    },
  })
  return {
    plugin,
    ends,
    begun,
    get reach(): Reach {
      if (!reach) throw new Error('The setup did not run.')
      return reach
    },
  }
}

/** A plugin that carries notices to a list. */
function carrier() {
  const carried: Notice[] = []
  const plugin = definePlugin({
    name: 'carrier',
    summary: 'Carries notices.',
    notices: (notice) => void carried.push(notice),
  })
  return { plugin, carried }
}

await onEachDatabase('what a user should know', ({ databaseUrl }) => {
  const database = databaseUrl === undefined ? undefined : ('postgres' as const)
  const open = async (steps: readonly ScriptedStep[] | ReturnType<typeof heldModel>) => {
    const [own, loud, post] = [caller('caller'), caller('loud'), carrier()]
    const app = await testApp({
      plugins: [own.plugin, loud.plugin, post.plugin],
      model: 'stream' in steps ? steps : scriptedModel(steps),
      clock: true,
      database,
    })
    onTestFinished(() => app.close())
    return { app, loud, carried: post.carried, own }
  }
  const unreadOf = async (user: TestUser) =>
    (await user.get('/sessions')).body.sessions.map(
      ({ sessionId, unread }: { sessionId: string; unread: number }) => [sessionId, unread],
    )

  it('is there once each: as an event, in the list, and at the plugin that carries it', async () => {
    const { app, own, loud, carried } = await open([
      'Two pumps are due.',
      new Error('The model is gone.'),
      call('caller_ring'),
      'Your own answer.',
    ])
    const { turns, sessions, jobs } = own.reach
    const [user, other] = [await app.user(), await app.user()]
    const events = await user.events()
    const others = await other.events()
    const { sessionId } = await sessions.ensure({ user, title: 'Pumps' })

    const start = async (message: string) => {
      const turn = turns.start({ user, session: sessionId, message, from: 'plugin' })
      expect(await turn.begun).toMatchObject({ state: 'running' })
      return (await turn.ended).status
    }
    await sessions.say({ user, session: sessionId, text: 'A pump has stopped.' })
    expect(await start('What is due?')).toBe('finished')
    expect(await start('And then?')).toBe('failed')
    expect(await start('Ring them.')).toBe('waiting')
    await jobs.later('fail', {}, { user: user.did })
    await app.clock.advance(0)

    const expected = [
      ['say', 'A pump has stopped.'],
      ['ended', 'There is an answer.'],
      ['failed', 'The answer failed.'],
      ['asks', 'Your decision is needed before this goes on.'],
      ['job', 'A task of caller could not be done: fail.'],
    ]
    const heard: Notice[] = []
    while (heard.length < expected.length) heard.push((await events.next('notice')).data)
    expect(heard.map(({ kind, text }) => [kind, text])).toEqual(expected)
    for (const notice of heard.slice(0, 4))
      expect(notice).toMatchObject({ plugin: 'caller', title: 'Pumps', sessionId })
    expect(heard[4]).toMatchObject({ plugin: 'caller', title: 'caller' })
    expect(heard[4]).not.toHaveProperty('sessionId')

    const { notices, unread } = await user.notices()
    expect(unread).toBe(5)
    expect([...notices].reverse()).toEqual(heard.map(({ user: _, ...notice }) => notice))
    expect(await unreadOf(user)).toEqual([[sessionId, 4]])
    await expect.poll(() => carried.length).toBe(5)
    expect([...carried].sort((one, two) => one.id - two.id)).toEqual(
      heard.map((notice) => ({ ...notice, user: user.did })),
    )

    // Seen in one place, seen in all.
    const seen = await user.post('/notices/seen', { sessionId })
    expect(seen.body).toEqual({ unread: 1 })
    expect((await events.next('seen')).data).toMatchObject({ unread: 1 })
    expect(await unreadOf(user)).toEqual([[sessionId, 0]])
    expect((await user.post('/notices/seen', { upTo: heard[4]?.id })).body).toEqual({ unread: 0 })

    // A muted plugin's words stand in the session all the same.
    await user.put('/notices/muted', { plugins: ['loud'] })
    const said = await loud.reach.sessions.say({ user, session: sessionId, text: 'LISTEN!' })
    await loud.reach.jobs.later('fail', {}, { user: user.did })
    await app.clock.advance(0)
    await sessions.say({ user, session: sessionId, text: 'One more thing.' })
    expect((await events.next('notice')).data.text).toBe('One more thing.')
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    expect(messages.map(({ id }: { id: string }) => id)).toContain(said.messageId)
    expect((await user.notices()).unread).toBe(1)
    await expect.poll(() => carried.length).toBe(6)
    expect(carried[5]?.text).toBe('One more thing.')

    // Nobody else has heard any of it: the first notice of another user is of what comes after.
    const { sessionId: elsewhere } = await sessions.ensure({ user: other })
    await sessions.say({ user: other, session: elsewhere, text: 'For you.' })
    expect((await others.next('notice')).data.text).toBe('For you.')
    expect((await other.notices()).notices).toHaveLength(1)
  })

  it('is told to a test that leaves and comes again, up to the end of the app', async () => {
    const { app, own } = await open([])
    const { sessions } = own.reach
    const user = await app.user()
    const { sessionId } = await sessions.ensure({ user })
    const say = (text: string) => sessions.say({ user, session: sessionId, text })
    const first = await user.events()
    await say('One.')
    let last: number | undefined
    for await (const { event, id, data } of first) {
      if (event !== 'notice') continue
      expect(data).toMatchObject({ id, text: 'One.' })
      last = id
      break
    }
    await expect(first.next()).rejects.toThrow('The stream of events ended')
    await say('Two.')
    const second = await user.events({ after: last })
    expect((await second.next('notice')).data.text).toBe('Two.')
    const third = await user.events()
    const names = async () => {
      const heard: string[] = []
      for await (const { event } of third) heard.push(event)
      return heard
    }
    const rest = names()
    const waiting = second.next('notice')
    await Promise.all([app.close(), expect(waiting).rejects.toThrow('before "notice" came')])
    expect(await rest).not.toContain('notice')
  })

  it('goes after thirty days, by the clock of the test', async () => {
    const { app, own } = await open([])
    const { sessions } = own.reach
    const user = await app.user()
    const { sessionId } = await sessions.ensure({ user })
    await sessions.say({ user, session: sessionId, text: 'Old.' })
    await app.clock.advance('20d')
    await sessions.say({ user, session: sessionId, text: 'Newer.' })
    const texts = async () => (await user.notices()).notices.map(({ text }) => text)
    expect(await texts()).toEqual(['Newer.', 'Old.'])
    await app.clock.advance('11d')
    expect(await texts()).toEqual(['Newer.'])
    await app.clock.advance('31d')
    expect(await user.notices()).toEqual({ notices: [], unread: 0 })
  })

  it('is of a waiting turn that it never began, after a day by the clock of the test', async () => {
    const model = heldModel(['One '], ['two.'])
    const { app, own } = await open(model)
    const { turns, sessions } = own.reach
    const user = await app.user()
    const { sessionId } = await sessions.ensure({ user, title: 'Pumps' })
    const events = await user.events()
    const count = randomUUID()
    const under = user.say('Count', { sessionId, body: { requestId: count } })
    await expect.poll(() => model.requests.length).toBe(1)
    const turn = turns.start({
      user,
      session: sessionId,
      message: 'And then?',
      from: 'plugin',
      requestId: 'then',
      metadata: { which: 'late' },
    })
    expect(await turn.begun).toMatchObject({ state: 'queued' })
    await app.clock.advance('23h')
    expect((await user.get(`/sessions/${sessionId}/run`)).body).toMatchObject({ waitingTurns: 1 })
    await app.clock.advance('2h')
    expect((await turn.ended).status).toBe('interrupted')
    await expect
      .poll(() => own.ends)
      .toEqual([{ status: 'interrupted', cause: 'expired', metadata: { which: 'late' } }])
    expect((await events.next('notice')).data).toMatchObject({ kind: 'failed', title: 'Pumps' })
    model.goOn()
    expect((await under).text).toBe('One two.')
    await expect.poll(() => own.ends.length).toBe(2)
    expect(own.begun).toEqual([count])
    expect(model.requests).toHaveLength(1)
  })
})
