import { TaskState } from '@a2a-js/sdk'
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client'
import { HttpAgent } from '@ag-ui/client'
import { Chat } from '@ai-sdk/react'
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  type ChatInit,
  type UIMessage,
} from 'ai'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'
import { onPostgres } from '../support/each-database.ts'

const wiped: string[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has a tool.',
  visibility: 'always',
  tools: {
    wipe: {
      description: 'Wipes.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => (wiped.push(what), 'wiped'),
    },
  },
})

/** Two replicas on one database, and the clients of one person at each. The first one is killed. */
async function open(
  databaseUrl: string,
  first: readonly ScriptedStep[],
  second: readonly ScriptedStep[],
) {
  wiped.length = 0
  const env = { DATABASE_URL: databaseUrl, RUN_LEASE_MS: '3000', ORACLE_MNEMONIC: 'two replicas' }
  const start = (steps: readonly ScriptedStep[]) => {
    const model = scriptedModel(steps)
    const plugins = [a2a, agUi, aiSdk, openaiApi, own]
    return testApp({ plugins, model, env }).then((app) => ({ app, model }))
  }
  const one = await start(first)
  const started = [one.app]
  const user = await one.app.user()
  const key = String((await user.post('/keys', { name: 'clients' })).body.key)
  const headers = { authorization: `Bearer ${key}` }
  const fetchImpl: typeof fetch = (url, init) => {
    const all = new Headers(init?.headers)
    all.set('authorization', headers.authorization)
    return fetch(url, { ...init, headers: all })
  }
  const at = ({ url }: TestApp) => ({
    openai: new OpenAI({ baseURL: `${url}/openai/v1`, apiKey: key, maxRetries: 0 }),
    chat: (init: Omit<ChatInit<UIMessage>, 'transport'>) =>
      new Chat<UIMessage>({
        ...init,
        transport: new DefaultChatTransport({ api: `${url}/ai-sdk/chat`, headers }),
      }),
    front: (threadId: string, messages: HttpAgent['messages'] = []) =>
      new HttpAgent({ url: `${url}/ag-ui`, headers, threadId, initialMessages: messages }),
    agent: () =>
      new ClientFactory({
        transports: [new JsonRpcTransportFactory({ fetchImpl })],
        cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
      }).createFromUrl(url),
  })
  return {
    ...{ one, at1: at(one.app) },
    /** Starts the other replica, and kills the first one beside it. */
    async survive() {
      const two = await start(second)
      started.push(two.app)
      await one.app.crash()
      return { two, at2: at(two.app) }
    },
    async [Symbol.asyncDispose]() {
      for (const app of started) await app.close()
    },
  }
}

const held: ScriptedStep = ({ signal }) =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve('Cut.')))
const said = { role: 'user' as const, content: 'Go' }
const message = (text: string) => ({
  ...{ tenant: '', metadata: undefined, configuration: undefined },
  message: {
    ...{ messageId: crypto.randomUUID(), contextId: '', taskId: '', role: 1 },
    ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
    parts: [
      {
        content: { $case: 'text' as const, value: text },
        ...{ metadata: undefined, filename: '', mediaType: '' },
      },
    ],
  },
})
const told = ({ messages }: { readonly messages: readonly UIMessage[] }) =>
  (messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === 'text' ? part.text : [])).join('')

await onPostgres('a replica that dies beside one that lives', ({ databaseUrl = '' }) => {
  test('in mid-answer: each client has the whole answer at the other one', async () => {
    const going = Promise.withResolvers<void>()
    const whole: ScriptedStep = async () => {
      await going.promise
      return 'The whole.'
    }
    await using here = await open(
      databaseUrl,
      [held, held, held, held],
      [whole, whole, whole, whole],
    )
    const { one, at1 } = here
    const chat = at1.chat({ id: 'page' })
    const broken: Promise<unknown>[] = [chat.sendMessage({ text: 'Go' })]
    const front = at1.front('front')
    front.addMessage({ id: '1', ...said })
    broken.push(front.runAgent({ runId: 'one' }).catch(() => undefined))
    const headers = { 'Idempotency-Key': 'once' }
    const body = { model: 'oracle', messages: [said] }
    broken.push(at1.openai.chat.completions.create(body, { headers }).catch(() => undefined))
    const stream = (await at1.agent()).sendMessageStream(message('Go'))
    const { value } = await stream.next()
    const id = value?.payload?.$case === 'task' ? value.payload.value.id : ''
    broken.push(stream.next().catch(() => undefined))
    await expect.poll(() => one.model.requests.length).toBe(4)
    // This client throws where nobody can catch it when its server dies.
    front.abortRun()
    const { two, at2 } = await here.survive()
    await Promise.all(broken)

    const again = at2.chat({ id: 'page' })
    const front2 = at2.front('front', [{ id: '1', ...said }])
    const heard: string[] = []
    const subscribed = async () => {
      for await (const { payload } of (await at2.agent()).resubscribeTask({ tenant: '', id }))
        heard.push(JSON.stringify(payload))
    }
    const all = [again.resumeStream(), subscribed()]
    await expect.poll(() => heard.length).toBeGreaterThan(0)
    await expect.poll(() => two.model.requests.length, { timeout: 30_000 }).toBeGreaterThan(1)
    going.resolve()
    await Promise.all(all)
    await front2.runAgent({ runId: 'one' })
    const answer = await at2.openai.chat.completions.create(body, { headers })
    expect(told(again)).toBe('The whole.')
    expect(front2.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'The whole.' })
    expect(answer.choices[0]?.message.content).toBe('The whole.')
    expect(heard.join()).toContain('The whole.')
    // Each turn went on once.
    expect(two.model.requests).toHaveLength(4)
  })

  test('while a person or a client is asked: both answer the other one', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'where' } }]
    await using here = await open(
      databaseUrl,
      [
        call('wipe', { what: 'logs' }),
        call('wipe', { what: 'mail' }),
        call('wipe', { what: 'pots' }),
        call('where'),
      ],
      ['Logs are gone.', 'Mail is gone.', 'Pots are gone.', 'You are in Lusaka.'],
    )
    const { at1 } = here
    const chat = at1.chat({ id: 'asked-page' })
    await chat.sendMessage({ text: 'Logs' })
    const front = at1.front('asked-front')
    front.addMessage({ id: '1', role: 'user', content: 'Mail' })
    await front.runAgent()
    const task = await (await at1.agent()).sendMessage(message('Pots'))
    expect(task).toMatchObject({ status: { state: TaskState.TASK_STATE_INPUT_REQUIRED } })
    const asked = { model: 'oracle', messages: [said], tools }
    const parked = await at1.openai.chat.completions.create(asked)
    const [waiting] = parked.choices[0]?.message.tool_calls ?? []
    const { at2 } = await here.survive()
    expect(wiped).toEqual([])

    const page = at2.chat({
      id: 'asked-page',
      messages: chat.messages,
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    })
    const part = page.messages.at(-1)?.parts.find(isToolUIPart)
    await page.addToolApprovalResponse({ id: part?.approval?.id ?? '', approved: true })
    await expect.poll(() => told(page)).toBe('Logs are gone.')
    const front2 = at2.front('asked-front', front.messages)
    const [interrupt] = front.pendingInterrupts
    await front2.runAgent({
      resume: [
        { interruptId: interrupt?.id ?? '', status: 'resolved', payload: { approved: true } },
      ],
    })
    expect(front2.messages.at(-1)).toMatchObject({ content: 'Mail is gone.' })
    const contextId = 'contextId' in task ? task.contextId : ''
    const yes = message('yes')
    const answered = await (
      await at2.agent()
    ).sendMessage({
      ...yes,
      message: { ...yes.message, contextId },
    })
    expect(JSON.stringify(answered)).toContain('Pots are gone.')
    const messages = [
      said,
      { role: 'assistant' as const, content: null, tool_calls: waiting ? [waiting] : [] },
      { role: 'tool' as const, tool_call_id: waiting?.id ?? '', content: 'Lusaka' },
    ]
    const goesOn = await at2.openai.chat.completions.create({ ...asked, messages })
    expect(goesOn.choices[0]?.message.content).toBe('You are in Lusaka.')
    expect(wiped).toEqual(['logs', 'mail', 'pots'])
  })
})
