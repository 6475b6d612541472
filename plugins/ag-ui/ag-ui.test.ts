import { HttpAgent, type HttpAgentConfig } from '@ag-ui/client'
import { HttpAgent as OlderAgent } from 'ag-ui-client-0.0.59'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import agUi from './index.ts'

const wiped: string[] = []
const causes: unknown[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has tools.',
  visibility: 'always',
  state: {
    counts: z
      .object({ total: z.number(), last: z.string().optional() })
      .default({ total: 0 })
      .meta({ scope: 'room', share: true }),
    secret: z.string().default('hidden').meta({ scope: 'room' }),
  },
  runs: { end: ({ cause }) => void causes.push(cause) },
  tools: {
    count: {
      description: 'Counts.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: (_, { emit, state }) => {
        emit.component('gauge', { value: 41 })
        state.counts = { total: state.counts.total + 1, last: 'now' }
        return { counted: 41 }
      },
    },
    wipe: {
      description: 'Wipes.',
      input: z.object({ what: z.string() }),
      approve: true,
      run: ({ what }) => {
        wiped.push(what)
        return 'wiped'
      },
    },
  },
})

type Env = Readonly<Record<string, string>>
interface Event {
  readonly type: string
  readonly [key: string]: unknown
}

async function open(
  steps: readonly ScriptedStep[],
  env: Env,
  Client: typeof HttpAgent,
  clock = false,
) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [agUi, own], model, env, clock })
  const user = await app.user()
  const keyOf = async (of = user) => String((await of.post('/keys', { name: 'a page' })).body.key)
  const headers = { authorization: `Bearer ${await keyOf()}` }
  const agent = (config: Partial<HttpAgentConfig> = {}) =>
    new Client({ url: `${app.url}/ag-ui`, headers, ...config })
  /** Runs the agent; the events as the client has checked them. */
  const run = async (
    of: HttpAgent,
    { says, ...input }: Parameters<HttpAgent['runAgent']>[0] & { says?: string } = {},
  ) => {
    if (says !== undefined)
      of.addMessage({ id: `m${of.messages.length}`, role: 'user', content: says })
    const events: Event[] = []
    await of.runAgent(input, { onEvent: ({ event }) => void events.push({ ...event }) })
    return events
  }
  return { model, app, user, keyOf, headers, agent, run, [Symbol.asyncDispose]: () => app.close() }
}

const typesOf = (events: readonly Event[]) => events.map(({ type }) => type)
const heard = (of: HttpAgent) =>
  of.messages.map(
    ({ role, content }) =>
      `${role}: ${typeof content === 'string' ? content : JSON.stringify(content)}`,
  )

const clients = [
  ['1.0.0', HttpAgent],
  // The older client's class has the same shape but for types of its own package.
  ['0.0.59', OlderAgent as unknown as typeof HttpAgent],
] as const

await onEachDatabase('AG-UI’s own client', ({ databaseUrl }) => {
  const env: Env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  describe.each(clients)('%s', (version, Client) => {
    const isOne = version === '1.0.0'

    test('words, reasoning, tools, components and shared state; an edit branches off', async () => {
      await using at = await open(
        [
          { reasoning: 'Hm.', text: 'One moment.', calls: [{ call: 'count', args: {} }] },
          { text: 'It is 41.', usage: { inputTokens: 5, outputTokens: 2 } },
          'Two.',
          'Edited.',
        ],
        env,
        Client,
      )
      const agent = at.agent({ threadId: `a-thread-${version}`, initialState: { mine: 1 } })
      const context = [{ description: 'The page', value: 'Shows maps.' }]
      const events = await at.run(agent, { says: 'Count', context })
      const told = new Set(['TEXT_MESSAGE_CONTENT', 'STATE_DELTA'])
      expect(typesOf(events).filter((type) => !told.has(type))).toEqual([
        ...['RUN_STARTED', 'STATE_SNAPSHOT', 'REASONING_START', 'REASONING_MESSAGE_START'],
        ...['REASONING_MESSAGE_CONTENT', 'REASONING_MESSAGE_END', 'REASONING_END'],
        ...['TEXT_MESSAGE_START', 'TEXT_MESSAGE_END'],
        ...['TOOL_CALL_START', 'TOOL_CALL_ARGS', 'TOOL_CALL_END', 'ACTIVITY_SNAPSHOT'],
        ...['TOOL_CALL_RESULT', 'TEXT_MESSAGE_START', 'TEXT_MESSAGE_END', 'RUN_FINISHED'],
      ])
      expect(agent.state).toEqual({ own: { counts: { total: 1, last: 'now' } } })
      expect(events.find(({ type }) => type === 'ACTIVITY_SNAPSHOT')).toMatchObject({
        activityType: 'component:gauge',
        content: { name: 'gauge', args: { value: 41 } },
      })
      const [first, last] = [events[0], events.at(-1)]
      expect(Object.keys(first ?? {}).includes('protocolVersion')).toBe(isOne)
      expect(Object.keys(last ?? {}).includes('usage')).toBe(isOne)
      const [system] = at.model.requests[0]?.messages ?? []
      expect(system?.content).toContain('> The page: Shows maps.')
      await at.run(agent, { says: 'Two' })
      expect(heard(agent).at(-1)).toBe('assistant: Two.')
      agent.setMessages(
        agent.messages.slice(
          0,
          agent.messages.findIndex(({ content }) => content === 'Two'),
        ),
      )
      await at.run(agent, { says: 'Two, edited' })
      const read = at.model.requests.at(-1)?.messages.map(({ content }) => content)
      expect(read).toContain('Two, edited')
      expect(read).not.toContain('Two.')
      expect(read).toContain('{"counted":41}')
      expect((await at.user.get(`/messages/a-thread-${version}`)).body.messages).toHaveLength(5)
      expect(at.model.remaining).toBe(0)
    })

    test('interrupts are approved, edited, rejected and cancelled; a stale answer is a conflict', async () => {
      wiped.length = 0
      await using at = await open(
        [
          [call('wipe', { what: 'logs' }), call('wipe', { what: 'mail' })],
          'Done.',
          call('wipe', { what: 'all' }),
          'I let it be.',
        ],
        env,
        Client,
      )
      const agent = at.agent({ threadId: `wiping-${version}` })
      const asked = (await at.run(agent, { says: 'Wipe' })).at(-1)
      const [logs] = agent.pendingInterrupts
      expect(asked).toMatchObject({ outcome: { type: 'interrupt' } })
      expect(logs).toMatchObject({
        reason: 'approval',
        metadata: { toolName: 'wipe', args: { what: 'logs' } },
      })
      const resume = (id = '', payload?: object, status: 'resolved' | 'cancelled' = 'resolved') =>
        at.run(agent, { resume: [{ interruptId: id, status, ...(payload && { payload }) }] })
      await resume(logs?.id, { approved: true })
      expect(wiped).toEqual(['logs'])
      const [mail] = agent.pendingInterrupts
      expect(mail).toMatchObject({ metadata: { args: { what: 'mail' } } })
      await resume(mail?.id, { approved: true, args: { what: 'spam' } })
      expect(wiped).toEqual(['logs', 'spam'])
      expect(heard(agent).at(-1)).toBe('assistant: Done.')
      const calls = agent.messages.flatMap((message) =>
        'toolCalls' in message ? (message.toolCalls ?? []) : [],
      )
      expect(calls).toHaveLength(2)
      await at.run(agent, { says: 'All' })
      await resume(agent.pendingInterrupts[0]?.id, undefined, 'cancelled')
      expect(heard(agent).at(-1)).toBe('assistant: I let it be.')
      const late: Event[] = []
      await agent
        .runAgent(
          {
            resume: [
              { interruptId: logs?.id ?? '', status: 'resolved', payload: { approved: true } },
            ],
          },
          { onEvent: ({ event }) => void late.push({ ...event }) },
        )
        .catch(() => undefined)
      expect(late.at(-1)).toMatchObject({ type: 'RUN_ERROR', code: 'CONFLICT' })
      expect(wiped).toEqual(['logs', 'spam'])
      expect(at.model.remaining).toBe(0)
    })

    test('a client that believes something else is told what was said, and one that agrees is not', async () => {
      await using at = await open(
        ['One.', call('count'), 'It is 41.', 'Three.', 'Four.'],
        env,
        Client,
      )
      const threadId = `told-${version}`
      const agent = at.agent({ threadId })
      const first = await at.run(agent, { says: 'First' })
      await at.run(agent, { says: 'Count' })
      const other = at.agent({
        threadId,
        initialMessages: [
          { id: 'a', role: 'user', content: 'Something' },
          { id: 'b', role: 'assistant', content: 'quite else' },
        ],
      })
      const events = await at.run(other, { says: 'Third' })
      expect(typesOf(events).slice(0, 2)).toEqual(['RUN_STARTED', 'MESSAGES_SNAPSHOT'])
      expect(heard(other).filter((line) => /^(user|assistant): [A-Z]/.test(line))).toEqual([
        ...['user: First', 'assistant: One.', 'user: Count', 'assistant: It is 41.'],
        ...['user: Third', 'assistant: Three.'],
      ])
      expect(other.messages.find(({ role }) => role === 'tool')).toMatchObject({
        content: '{"counted":41}',
      })
      // Both agree from now on.
      const next = await at.run(other, { says: 'Fourth' })
      expect(heard(other).at(-1)).toBe('assistant: Four.')
      const told = [first, next].flatMap(typesOf)
      expect(told).not.toContain('MESSAGES_SNAPSHOT')
      expect(JSON.stringify(at.model.requests.at(-1)?.messages)).toContain('Third')
    })

    test('front-end tools go over two runs, and an hour may lie between them', async () => {
      await using at = await open(
        [[call('where'), call('count')], 'You are in Lusaka.'],
        env,
        Client,
        true,
      )
      const agent = at.agent({ threadId: `where-${version}` })
      const tools = [
        { name: 'where', description: 'Where the person is.', parameters: { type: 'object' } },
      ]
      const events = await at.run(agent, { says: 'Where am I?', tools })
      const started = events.filter(({ type }) => type === 'TOOL_CALL_START')
      const toolCallId = String(
        started.find(({ toolCallName }) => toolCallName === 'where')?.toolCallId,
      )
      if (isOne)
        expect(events.at(-1)).toMatchObject({
          outcome: { type: 'success', pendingToolCallIds: [toolCallId] },
        })
      expect(JSON.stringify(events.at(-1)).includes('pendingToolCallIds')).toBe(isOne)
      await at.app.clock.advance('1h')
      agent.addMessage({ id: 'result', role: 'tool', toolCallId, content: 'Lusaka' })
      const again = at.agent({ threadId: `where-${version}`, initialMessages: agent.messages })
      await at.run(agent, { tools, runId: 'second' })
      expect(heard(agent).at(-1)).toBe('assistant: You are in Lusaka.')
      expect(JSON.stringify(at.model.requests[1]?.messages)).toContain('Lusaka')
      // The same input, sent again, is not another turn.
      await at.run(again, { tools, runId: 'second' })
      expect(heard(again).at(-1)).toBe('assistant: You are in Lusaka.')
      expect(at.model.requests).toHaveLength(2)
    })
  })

  test('another user’s thread is not found, and a run that nobody reads ends', async () => {
    const stopped = Promise.withResolvers<string>()
    await using at = await open(
      [
        'Mine.',
        ({ signal }) =>
          new Promise((resolve) =>
            signal.addEventListener('abort', () => {
              stopped.resolve('stopped')
              resolve('Too late.')
            }),
          ),
      ],
      env,
      HttpAgent,
    )
    const agent = at.agent({ threadId: 'mine' })
    await at.run(agent, { says: 'Hello', runId: 'once' })
    const send = async (body: object, key?: string) => {
      const answer = await fetch(`${at.app.url}/ag-ui`, {
        method: 'POST',
        headers: {
          ...at.headers,
          ...(key && { authorization: `Bearer ${key}` }),
          'content-type': 'application/json',
        },
        body: JSON.stringify({
          threadId: 'mine',
          runId: 'r',
          messages: [{ role: 'user', content: 'Hi' }],
          ...body,
        }),
      })
      const text = await answer.text()
      return [answer.status, text.startsWith('{') ? JSON.parse(text).code : text] as const
    }
    const stranger = await at.keyOf(await at.app.user())
    expect(await send({}, stranger)).toEqual([404, 'NOT_FOUND'])
    expect((await send({ runId: 'once' }))[0]).toBe(422)
    for (const threadId of ['', '.', '..', 'x'.repeat(10_000), 'a\nb'])
      expect((await send({ threadId }))[0], JSON.stringify(threadId)).toBe(400)
    expect((await send({ messages: [] }))[0]).toBe(400)
    expect((await send({ messages: [{ role: 'robot', content: 'a' }] }))[0]).toBe(400)
    expect((await send({ messages: [{ role: 'assistant', content: 'a' }] }))[0]).toBe(400)
    expect((await send({ tools: [{ name: 'count' }] }))[0]).toBe(400)
    expect((await send({ tools: [{ name: 'a b' }] }))[0]).toBe(400)
    expect((await send({ tools: [{ name: 'a' }, { name: 'a' }] }))[0]).toBe(400)
    expect((await send({}, 'ok_wrong'))[0]).toBe(401)
    causes.length = 0
    const lonely = at.agent({ threadId: 'lonely', headers: { ...at.headers, 'x-alone': '1' } })
    const going = at.run(lonely, { says: 'Go' }).catch(() => undefined)
    await expect.poll(() => at.model.requests.length).toBe(2)
    lonely.abortRun()
    await going
    expect(await stopped.promise).toBe('stopped')
    await expect.poll(() => causes).toEqual(['alone'])
  })
})
