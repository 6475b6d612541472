import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Message, type Model, type PluginSessions } from '#core'
import { call, readEvents, scriptedModel, testApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { heldModel } from '../support/held-model.ts'
import { framings, tokensOf } from '../support/sockets.ts'

const mnemonic = 'words of one oracle'

/** A plugin that speaks. */
const speaking = (name: string, take: (sessions: PluginSessions) => unknown) =>
  definePlugin({
    name,
    summary: 'Tells people things.',
    setup: ({ sessions }) => void take(sessions),
  })

/** A tool for which a person is asked. */
const till = definePlugin({
  name: 'till',
  summary: 'Pays.',
  visibility: 'always',
  tools: {
    pay: { description: 'Pays.', approve: true, input: z.object({}), run: () => 'paid' },
  },
})

interface Line {
  readonly id: string
  readonly type: string
  readonly content: string
  readonly isComplete: boolean
  readonly toolCalls?: readonly { name: string; args: unknown; status: string }[]
}

const historyOf = async (user: TestUser, session: string): Promise<readonly Line[]> =>
  (await user.get(`/messages/${session}`)).body.messages
const wordsOf = async (user: TestUser, session: string) =>
  (await historyOf(user, session)).map(({ content }) => content)
const spoken = (messages: readonly Message[] | undefined) =>
  messages?.filter(({ role }) => role !== 'system').map(({ role, content }) => [role, content])
const codeOf = (said: Promise<unknown>) =>
  said.then(
    () => 'said',
    (error: { code: string }) => error.code,
  )

await onEachDatabase('words that a plugin says', ({ databaseUrl }) => {
  const env = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
  const open = async (model: Model = scriptedModel([]), more: Record<string, string> = {}) => {
    const made: Record<string, PluginSessions> = {}
    const app = await testApp({
      plugins: [
        till,
        speaking('reminders', (sessions) => (made.reminders = sessions)),
        speaking('weather', (sessions) => (made.weather = sessions)),
      ],
      model,
      env: { ORACLE_MNEMONIC: mnemonic, ...env, ...more },
    })
    onTestFinished(() => app.close())
    const { reminders, weather } = made
    if (!reminders || !weather) throw new Error('A setup did not run.')
    return { app, sessions: reminders, weather }
  }
  /** A user who has a session. */
  const known = async ({ app }: Awaited<ReturnType<typeof open>>) => {
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    return { user, sessionId: String(sessionId) }
  }

  it('stand in the history, and the model reads them as its own, with the name of the plugin', async () => {
    const model = scriptedModel(['Good day.', 'Then good night.'])
    const opened = await open(model)
    const { user, sessionId } = await known(opened)
    await user.say('Hello', { sessionId })
    const said = await opened.sessions.say({ user, session: sessionId, text: 'Take your pills.' })
    expect(said.sessionId).toBe(sessionId)
    await user.say('I took them', { sessionId })
    expect(await wordsOf(user, sessionId)).toEqual([
      'Hello',
      'Good day.',
      'Take your pills.',
      'I took them',
      'Then good night.',
    ])
    const line = (await historyOf(user, sessionId)).find(({ id }) => id === said.messageId)
    expect(line).toMatchObject({ type: 'ai', content: 'Take your pills.', isComplete: true })
    expect(spoken(model.requests[1]?.messages)).toEqual([
      ['user', 'Hello'],
      ['assistant', 'Good day.'],
      ['assistant', '[reminders] Take your pills.'],
      ['user', 'I took them'],
    ])
  })

  it('may come before the user has said anything', async () => {
    const model = scriptedModel(['Well done.'])
    const opened = await open(model)
    const { user } = await known(opened)
    const { sessionId } = await opened.sessions.say({ user, text: 'Take your pills.', title: 'P' })
    await user.say('Done', { sessionId })
    const [first, ...rest] = spoken(model.requests[0]?.messages) ?? []
    expect(first?.[0]).toBe('user')
    expect(rest).toEqual([
      ['assistant', '[reminders] Take your pills.'],
      ['user', 'Done'],
    ])
    expect(await wordsOf(user, sessionId)).toEqual(['Take your pills.', 'Done', 'Well done.'])
    const { sessions } = (await user.get('/sessions')).body
    expect(
      sessions.find((one: Line & { sessionId: string }) => one.sessionId === sessionId),
    ).toEqual(expect.objectContaining({ title: 'P' }))
  })

  it('go into the newest session of the plugin, or a new one, however many come at once', async () => {
    const opened = await open()
    const { user, sessionId } = await known(opened)
    const say = (text: string) => opened.sessions.say({ user, text })
    const many = await Promise.all(Array.from({ length: 20 }, (_, i) => say(`Number ${i}.`)))
    const [own] = new Set(many.map((said) => said.sessionId))
    expect(new Set(many.map((said) => said.sessionId)).size).toBe(1)
    expect(own).not.toBe(sessionId)
    expect(new Set(many.map((said) => said.messageId)).size).toBe(20)
    expect((await opened.weather.say({ user, text: 'Rain.' })).sessionId).not.toBe(own)
    expect(await opened.sessions.ensure({ user })).toEqual({ sessionId: own, isNew: false })
    const newer = await opened.sessions.ensure({ user, id: 'newer', title: 'Newer' })
    expect(newer).toEqual({ sessionId: 'newer', isNew: true })
    await opened.sessions.say({ user, session: 'newer', text: 'Here.' })
    expect((await say('And here.')).sessionId).toBe('newer')
    expect(new Set(await wordsOf(user, own ?? ''))).toEqual(
      new Set(Array.from({ length: 20 }, (_, i) => `Number ${i}.`)),
    )
  })

  it('go with a session that a plugin deletes, which nobody else can', async () => {
    const opened = await open()
    const [user, other] = [await opened.app.user(), await opened.app.user()]
    const { sessionId } = (await user.post('/sessions')).body
    await opened.sessions.say({ user, session: sessionId, text: 'For a while.' })
    const gone = (whose: TestUser, session: string) =>
      codeOf(opened.sessions.delete({ user: whose, session }))
    expect(await gone(other, sessionId)).toBe('NOT_FOUND')
    expect(await wordsOf(user, sessionId)).toEqual(['For a while.'])
    await opened.sessions.delete({ user, session: sessionId })
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(404)
    expect(await gone(user, sessionId)).toBe('NOT_FOUND')
  })

  it('do not touch an answer of 400 words that is under way, and stand behind it', async () => {
    const half = Array.from({ length: 200 }, (_, i) => `w${i} `)
    const model = heldModel(half, half)
    const opened = await open(model)
    const { user, sessionId } = await known(opened)
    const socket = await framings.plain(
      opened.app.url,
      sessionId,
      await tokensOf(user, opened.app.oracleDid),
    )
    const turn = user.say('Count', { sessionId })
    await socket.event('message')
    await opened.sessions.say({ user, session: sessionId, text: 'Look up!' })
    await socket.find((text) => (text.includes('Look up!') ? true : undefined))
    expect((await user.get(`/sessions/${sessionId}/run`)).body.run).toMatchObject({
      status: 'running',
    })
    model.goOn()
    const { status, text } = await turn
    expect(status).toBe('finished')
    expect(text).toBe([...half, ...half].join(''))
    expect(await wordsOf(user, sessionId)).toEqual(['Count', text, 'Look up!'])
    await user.say('Again', { sessionId })
    expect(spoken(model.requests[1]?.messages)).toEqual([
      ['user', 'Count'],
      ['assistant', text],
      ['assistant', '[reminders] Look up!'],
      ['user', 'Again'],
    ])
  })

  it('are known to the model after an approval that waited meanwhile', async () => {
    const model = scriptedModel([
      { text: 'Paying.', calls: [call('pay')] },
      'Paid.',
      'You are welcome.',
    ])
    const opened = await open(model)
    const { user, sessionId } = await known(opened)
    const asked = await user.say('Pay', { sessionId, approvals: true })
    expect(asked.status).toBe('waiting')
    await opened.sessions.say({ user, session: sessionId, text: 'Somebody waits for you.' })
    await opened.sessions.say({
      user,
      session: sessionId,
      component: { name: 'bell', args: { rings: 2 } },
    })
    expect((await user.get(`/sessions/${sessionId}/run`)).body.waiting).toEqual({
      runId: asked.runId,
    })
    expect((await asked.approve()).text).toBe('Paid.')
    await user.say('Thank you', { sessionId })
    expect(spoken(model.requests[2]?.messages)).toEqual([
      ['user', 'Pay'],
      ['assistant', 'Paying.'],
      ['tool', 'paid'],
      ['assistant', '[reminders] Somebody waits for you.'],
      ['assistant', '[reminders] (I showed the component "bell" with {"rings":2})'],
      ['assistant', 'Paid.'],
      ['user', 'Thank you'],
    ])
    const history = await historyOf(user, sessionId)
    expect(history.map(({ content }) => content)).toEqual([
      'Pay',
      'Paying.',
      'Somebody waits for you.',
      '',
      'Paid.',
      'Thank you',
      'You are welcome.',
    ])
    expect(history.map(({ toolCalls }) => toolCalls?.map(({ name }) => name))).toEqual([
      undefined,
      ['pay'],
      undefined,
      ['bell'],
      undefined,
      undefined,
      undefined,
    ])
  })

  it('reach every open socket and the stream of their run, and a component keeps its name', async () => {
    const opened = await open()
    const { user, sessionId } = await known(opened)
    const tokens = await tokensOf(user, opened.app.oracleDid)
    const plain = await framings.plain(opened.app.url, sessionId, tokens)
    const io = await framings['socket.io'](opened.app.url, sessionId, tokens)
    const text = 'word 😀 '.repeat(5_000)
    const component = { name: 'unknown-to-the-page', args: { due: [1, 2], note: null } }
    await opened.sessions.say({ user, session: sessionId, text })
    await opened.sessions.say({ user, session: sessionId, component })
    expect(await plain.event('done', 1)).toMatchObject({ status: 'finished', sessionId })
    const heard = plain.events('message').map(({ content }) => content)
    expect(heard.join('')).toBe(text)
    // The published client hears that it has to read the history again.
    await io.event('message_cache_invalidation', 1)
    for (const socket of [plain, io])
      expect(socket.events('render_component')).toEqual([
        expect.objectContaining({ componentName: component.name, args: component.args }),
      ])
    // A socket reads the runs of its session side by side, so the first that it hears of may be the second that was said.
    const said: Set<string>[] = []
    for (const { runId } of plain.events('run')) {
      const events = await readEvents(String((await user.get(`/runs/${runId}`)).body))
      const names = events.map(({ event }) => event)
      said.push(new Set(names))
      expect(names.at(-1)).toBe('done')
      expect(events.map(({ id }) => id)).toEqual(events.map((_, i) => i + 1))
    }
    expect(said).toHaveLength(2)
    for (const name of ['message', 'render_component'])
      expect(said).toContainEqual(new Set(['run', name, 'done']))
    expect((await historyOf(user, sessionId)).at(-1)?.toolCalls).toEqual([
      { id: expect.any(String), ...component, status: 'done' },
    ])
  })

  it('are said once by a key, however many say them at once', async () => {
    const opened = await open()
    const { user, sessionId } = await known(opened)
    const say = () =>
      opened.sessions.say({ user, session: sessionId, key: 'pills 8:00', text: 'Pills.' })
    const first = await say()
    expect(await say()).toEqual(first)
    const all = await Promise.all(Array.from({ length: 100 }, say))
    expect(new Set(all.map(({ messageId }) => messageId))).toEqual(new Set([first.messageId]))
    expect(await wordsOf(user, sessionId)).toEqual(['Pills.'])
    const at = () =>
      opened.weather.say({ user, session: sessionId, key: 'pills 8:00', text: 'Sun.' })
    const others = await Promise.all(Array.from({ length: 100 }, at))
    expect(new Set(others.map(({ messageId }) => messageId)).size).toBe(1)
    expect(await wordsOf(user, sessionId)).toEqual(['Pills.', 'Sun.'])
    // The key is free again when the session is gone.
    await user.delete(`/sessions/${sessionId}`)
    const next = await opened.sessions
      .say({ user, key: 'pills 8:00', text: 'Pills.' })
      .catch((error: { code: string }) => error.code)
    expect(next).toBe('UNKNOWN_USER')
    const anew = (await user.post('/sessions')).body.sessionId
    const again = await opened.sessions.say({ user, session: anew, key: 'pills 8:00', text: 'P.' })
    expect(again.messageId).not.toBe(first.messageId)
  })

  it('are sixty a minute of one plugin to one user', async () => {
    const opened = await open()
    const { user, sessionId } = await known(opened)
    const other = await known(opened)
    const say = (n: number, key?: string) =>
      opened.sessions.say({ user, session: sessionId, text: `${n}`, key })
    for (let n = 0; n < 60; n += 6)
      await Promise.all(Array.from({ length: 6 }, (_, i) => say(n + i, `n ${n + i}`)))
    const refused = await say(61).catch((error: unknown) => error)
    expect(refused).toMatchObject({ code: 'RATE_LIMITED', status: 429 })
    const { headers } = refused as { headers: Record<string, string> }
    expect(Number(headers['Retry-After'])).toBeGreaterThan(0)
    expect(Number(headers['Retry-After'])).toBeLessThanOrEqual(60)
    // What was said is found again, and other plugins and users have their own sixty.
    expect((await say(3, 'n 3')).sessionId).toBe(sessionId)
    await opened.weather.say({ user, session: sessionId, text: 'Rain.' })
    await opened.sessions.say({ user: other.user, session: other.sessionId, text: 'Hello.' })
    expect(await wordsOf(user, sessionId)).toHaveLength(61)
  })

  it('are refused when they are not words, not for that session or not for that user', async () => {
    const opened = await open()
    const { user, sessionId } = await known(opened)
    const other = await known(opened)
    const say = (words: object) => codeOf(opened.sessions.say({ user, ...words }))
    const component = { name: 'bell', args: {} }
    const circle: Record<string, unknown> = {}
    circle.self = circle
    for (const words of [
      {},
      { text: '' },
      { text: ' \n' },
      { text: 'both', component },
      { text: 'a'.repeat(65_537) },
      { text: '😀'.repeat(16_385) },
      { text: 7 },
      { text: 'a', key: '' },
      { text: 'a', key: 'k'.repeat(201) },
      { text: 'a', title: '' },
      { text: 'a', session: '' },
      { text: 'a', user: undefined },
      { text: 'a', user: { did: 'Amina' } },
      { text: 'a', notfy: false },
      { component: { name: '', args: {} } },
      { component: { name: 'bell', args: [] } },
      { component: { name: 'bell', args: circle } },
      { component: { name: 'bell', args: { long: 'a'.repeat(65_536) } } },
    ])
      expect([await say(words), Object.keys(words)]).toEqual(['INPUT_INVALID', Object.keys(words)])
    for (const nothing of [undefined, null, 'Hello'] as never[]) {
      expect(await codeOf(opened.sessions.say(nothing))).toBe('INPUT_INVALID')
      expect(await codeOf(opened.sessions.ensure(nothing))).toBe('INPUT_INVALID')
    }
    const misspelt = { user, titel: 'Mine' } as never
    await expect(opened.sessions.ensure(misspelt)).rejects.toMatchObject({
      message: 'A session of plugin reminders is asked for with "titel".',
      hint: 'Did you mean "title"?',
    })
    await expect(opened.sessions.say({ user: { did: 'Amina' }, text: 'a' })).rejects.toMatchObject({
      message: 'The user of a message of plugin reminders is not a DID.',
    })
    // No database keeps such an id, and PostgreSQL would say so in its own words.
    for (const session of ['a\0b', 'x'.repeat(10_000)])
      expect(await say({ text: 'a', session })).toBe('INPUT_INVALID')
    expect(await say({ text: 'a'.repeat(65_536) })).toBe('said')
    expect(await say({ text: 'Hello', session: other.sessionId })).toBe('NOT_FOUND')
    expect(await say({ text: 'Hello', session: 'nowhere' })).toBe('NOT_FOUND')
    await expect(
      opened.sessions.say({ user, text: 'Hello', session: 'nowhere' }),
    ).rejects.toMatchObject({
      message: `${user.did} has no session "nowhere" to speak in.`,
      hint: expect.stringContaining('sessions.ensure'),
    })
    expect(await wordsOf(other.user, other.sessionId)).toEqual([])
    expect(await wordsOf(user, sessionId)).toEqual([])
    const stranger = { did: 'did:key:zStranger' }
    expect(await say({ text: 'Buy!', user: stranger })).toBe('UNKNOWN_USER')
    const granted = await opened.app.user()
    expect(await say({ text: 'Hello', user: granted })).toBe('UNKNOWN_USER')
    await granted.granted('till/write')
    expect(await say({ text: 'Hello', user: granted })).toBe('said')
    expect(await codeOf(opened.sessions.ensure({ user, id: other.sessionId }))).toBe('NOT_FOUND')
    expect(await codeOf(opened.sessions.ensure({ user, id: 'x'.repeat(101) }))).toBe(
      'INPUT_INVALID',
    )
  })

  it('outlive the process, and stand behind a turn that another process takes over', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'said-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const durable = { DATA_DIR: folder, RUN_LEASE_MS: '1000' }
    const first = await open(heldModel(['One, '], []), durable)
    const user = await first.app.user('of two processes')
    const { sessionId } = (await user.post('/sessions')).body
    const socket = await framings.plain(
      first.app.url,
      sessionId,
      await tokensOf(user, first.app.oracleDid),
    )
    const cut = user.say('Count', { sessionId }).catch((error: unknown) => error)
    await socket.event('message')
    await first.sessions.say({ user, session: sessionId, text: 'Look up!', key: 'once' })
    await first.app.close()
    await cut
    const model = scriptedModel(['One, two.', 'I told you.'])
    const second = await open(model, durable)
    const again = await second.app.user('of two processes')
    await expect
      .poll(() => wordsOf(again, sessionId), { timeout: 20_000 })
      .toEqual(['Count', 'One, two.', 'Look up!'])
    await expect
      .poll(async () => (await again.get(`/sessions/${sessionId}/run`)).body.run, {
        timeout: 20_000,
      })
      .toBeNull()
    await second.sessions.say({ user, session: sessionId, text: 'Look up!', key: 'once' })
    await again.say('What did you say?', { sessionId })
    expect(spoken(model.requests[0]?.messages)).toEqual([['user', 'Count']])
    expect(spoken(model.requests[1]?.messages)).toEqual([
      ['user', 'Count'],
      ['assistant', 'One, two.'],
      ['assistant', '[reminders] Look up!'],
      ['user', 'What did you say?'],
    ])
  })
})
