import { Role, TaskState } from '@a2a-js/sdk'
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client'
import { HttpAgent } from '@ag-ui/client'
import { Chat } from '@ai-sdk/react'
import { DefaultChatTransport, type UIMessage } from 'ai'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import mcpServers from '../../plugins/mcp/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { message, send } from '../support/mcp-clients.ts'

let isPaid = true
const till = definePlugin({
  name: 'till',
  summary: 'Wants to be paid.',
  visibility: 'silent',
  runs: {
    admit() {
      if (isPaid) return
      throw new RuntimeError('PAYMENT_REQUIRED', 'This turn is not paid for.', { status: 402 })
    },
  },
})

type Env = Readonly<Record<string, string>>

async function open(steps: readonly ScriptedStep[], env: Env) {
  isPaid = true
  const model = scriptedModel(steps)
  const app = await testApp({
    plugins: [a2a, agUi, aiSdk, mcpServers, openaiApi, till],
    model,
    env,
  })
  const user = await app.user()
  const apiKey = String((await user.post('/keys', { name: 'clients' })).body.key)
  const headers = { authorization: `Bearer ${apiKey}` }
  const fetchImpl: typeof fetch = (url, init) => {
    const own = new Headers(init?.headers)
    own.set('authorization', headers.authorization)
    return fetch(url, { ...init, headers: own })
  }
  const agent = async () =>
    new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    }).createFromUrl(app.url)
  let sent = 0
  return {
    ...{ model, app, user, headers, agent },
    front: (threadId: string) => new HttpAgent({ url: `${app.url}/ag-ui`, headers, threadId }),
    chat: (id: string, messages: UIMessage[] = []) =>
      new Chat<UIMessage>({
        ...{ id, messages },
        transport: new DefaultChatTransport({ api: `${app.url}/ai-sdk/chat`, headers }),
      }),
    /** Asks the agent by the tool of MCP. */
    ask: async (words: string) =>
      (
        await send(
          app,
          apiKey,
          message('tools/call', { name: 'ask', arguments: { message: words } }),
        )
      ).body.result,
    openai: new OpenAI({ baseURL: `${app.url}/openai/v1`, apiKey, maxRetries: 0 }),
    says: (value: string, contextId = '') => ({
      ...{ tenant: '', metadata: undefined, configuration: undefined },
      message: {
        ...{ messageId: `m${++sent}`, contextId, taskId: '', role: Role.ROLE_USER },
        ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
        parts: [
          {
            content: { $case: 'text' as const, value },
            ...{ metadata: undefined, filename: '', mediaType: '' },
          },
        ],
      },
    }),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

const history = z.object({
  messages: z.array(z.looseObject({ content: z.string() })),
})
const told = ({ messages }: { readonly messages: readonly UIMessage[] }) =>
  (messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === 'text' ? part.text : [])).join('')
const usage = { inputTokens: 5, outputTokens: 2 }

await onEachDatabase('one oracle behind every door', ({ databaseUrl }) => {
  const env: Env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test('a conversation goes on over each of them, costs the same, and counts in the same limits', async () => {
    await using at = await open(
      ['A.', 'B.', 'C.', 'D.', 'E.', 'F.'].map((text) => ({ text, usage })),
      { ...env, TURNS_PER_DAY: '6' },
    )
    const front = at.front('one')
    front.addMessage({ id: '1', role: 'user', content: 'First' })
    await front.runAgent()
    const native = await at.user.post('/messages/one', { message: 'Second', stream: false })
    expect(native.body.message.content).toBe('B.')
    const listed = await fetch(`${at.app.url}/ai-sdk/chat/one/messages`, { headers: at.headers })
    const page = z.object({ messages: z.array(z.custom<UIMessage>()) }).parse(await listed.json())
    const chat = at.chat('one', page.messages)
    await chat.sendMessage({ text: 'Third' })
    expect(told(chat)).toBe('C.')
    const agent = await at.agent()
    const task = await agent.sendMessage(at.says('Fourth', 'one'))
    expect(JSON.stringify(task)).toContain('D.')
    const { messages } = history.parse((await at.user.get('/messages/one')).body)
    expect(messages.map(({ content }) => content)).toEqual([
      'First',
      'A.',
      'Second',
      'B.',
      'Third',
      'C.',
      'Fourth',
      'D.',
    ])
    const { runs } = z
      .object({
        runs: z.array(z.looseObject({ usage: z.looseObject({ inputTokens: z.number() }) })),
      })
      .parse((await at.user.get('/sessions/one/runs')).body)
    expect(runs.map((run) => [run.usage.inputTokens, run.usage.outputTokens])).toEqual(
      Array(4).fill([5, 2]),
    )

    const plain = await at.openai.chat.completions.create({
      model: 'oracle',
      messages: [{ role: 'user', content: 'Hello' }],
    })
    expect(plain.usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 2 })
    const { session, text } = (await at.ask('Hello')).structuredContent
    expect(text).toBe('F.')
    expect((await at.user.get(`/sessions/${session}/runs`)).body.runs).toMatchObject([{ usage }])

    // The day's turns are used up, whichever way the next one comes.
    const late = at.chat('late')
    await late.sendMessage({ text: 'Fifth' })
    expect(late.error).toMatchObject({ statusCode: 429 })
    front.addMessage({ id: '2', role: 'user', content: 'Fifth' })
    await expect(front.runAgent()).rejects.toMatchObject({ status: 429 })
    const messageOf = [{ role: 'user' as const, content: 'Fifth' }]
    await expect(
      at.openai.chat.completions.create({ model: 'oracle', messages: messageOf }),
    ).rejects.toMatchObject({ status: 429 })
    await expect(agent.sendMessage(at.says('Fifth'))).rejects.toThrow()
    expect(await at.ask('Fifth')).toMatchObject({ isError: true })
    expect(at.model.requests).toHaveLength(6)
  })

  test('what is not paid for is a 402 in the form of each', async () => {
    await using at = await open([], env)
    isPaid = false
    const chat = at.chat('poor')
    await chat.sendMessage({ text: 'Hello' })
    expect(chat.error).toMatchObject({ statusCode: 402 })
    const front = at.front('poor')
    front.addMessage({ id: '1', role: 'user', content: 'Hello' })
    await expect(front.runAgent()).rejects.toMatchObject({ status: 402 })
    await expect(
      at.openai.chat.completions.create({
        model: 'oracle',
        messages: [{ role: 'user', content: 'Hello' }],
      }),
    ).rejects.toMatchObject({ status: 402, code: 'insufficient_quota' })
    const task = await (await at.agent()).sendMessage(at.says('Hello'))
    expect(task).toMatchObject({ status: { state: TaskState.TASK_STATE_REJECTED } })
    expect(JSON.stringify(task)).toContain('not paid for')
    const told = await at.ask('Hello')
    expect(told).toMatchObject({ isError: true })
    expect(JSON.stringify(told)).toMatch(/not paid for.*PAYMENT_REQUIRED/)
    expect(at.model.requests).toHaveLength(0)
  })

  test('a server that dies in mid-answer: the page and the other agent read on at the next one', async () => {
    const held: ScriptedStep = ({ signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve('Cut.')))
    const going = Promise.withResolvers<void>()
    const whole: ScriptedStep = async () => {
      await going.promise
      return 'The whole.'
    }
    await using at = await open([held, held, whole, whole], { ...env, RUN_LEASE_MS: '1000' })
    const chat = at.chat('cut')
    const cut = chat.sendMessage({ text: 'Go' })
    const stream = (await at.agent()).sendMessageStream(at.says('Go'))
    const { value } = await stream.next()
    const id = value?.payload?.$case === 'task' ? value.payload.value.id : ''
    await expect.poll(() => at.model.requests.length).toBe(2)
    const broken = stream.next().catch(() => undefined)
    await at.app.crash()
    await Promise.all([cut, broken])
    await at.app.again()
    const again = at.chat('cut')
    const reading = again.resumeStream()
    const heard: string[] = []
    for await (const { payload } of (await at.agent()).resubscribeTask({ tenant: '', id })) {
      if (payload?.$case === 'task') going.resolve()
      heard.push(JSON.stringify(payload))
    }
    expect(heard.join()).toContain('The whole.')
    await reading
    expect(told(again)).toBe('The whole.')
    expect(at.model.remaining).toBe(0)
  })
})
