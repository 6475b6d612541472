import { once } from 'node:events'
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
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'
import { onPostgres } from '../support/each-database.ts'
import { startProcess } from '../support/start-process.ts'

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

/** Two replicas on one database, and the clients of one person at each. The first one is a process, which is killed. */
async function open(databaseUrl: string, second: readonly ScriptedStep[]) {
  wiped.length = 0
  const env = { DATABASE_URL: databaseUrl, RUN_LEASE_MS: '3000', ORACLE_MNEMONIC: 'two replicas' }
  const model = scriptedModel(second)
  const two = await testApp({ plugins: [a2a, agUi, aiSdk, openaiApi, own], model, env })
  const child = startProcess('test/support/doors-server.ts', { DOORS: JSON.stringify(env) })
  const kill = async () => {
    if (child.process.signalCode !== null || child.process.exitCode !== null) return
    const exit = once(child.process, 'exit')
    child.process.kill('SIGKILL')
    await exit
  }
  onTestFinished(async () => {
    await kill()
    await two.close()
  })
  const [, one = ''] = await child.said(/listening on (\S+)/)
  const user = await two.user()
  const key = String((await user.post('/keys', { name: 'clients' })).body.key)
  const headers = { authorization: `Bearer ${key}` }
  const fetchImpl: typeof fetch = (url, init) => {
    const all = new Headers(init?.headers)
    all.set('authorization', headers.authorization)
    return fetch(url, { ...init, headers: all })
  }
  const at = (url: string) => ({
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
  return { model, child, kill, at1: at(one), at2: at(two.url) }
}

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
const wordsOf = (artifact: { parts: { content?: { value: unknown } | undefined }[] } | undefined) =>
  artifact?.parts.map(({ content }) => content?.value).join('') ?? ''
const told = ({ messages }: { readonly messages: readonly UIMessage[] }) =>
  (messages.at(-1)?.parts ?? []).flatMap((part) => (part.type === 'text' ? part.text : [])).join('')

await onPostgres('a replica that dies beside one that lives', ({ databaseUrl = '' }) => {
  test('in mid-answer: each client has the whole answer at the other one', async () => {
    const going = Promise.withResolvers<void>()
    const whole: ScriptedStep = async () => {
      await going.promise
      return 'The whole.'
    }
    const { model, child, kill, at1, at2 } = await open(databaseUrl, [whole, whole, whole, whole])
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
    await child.said(/(answering\s+){4}/)
    // This client throws where nobody can catch it when its server dies.
    front.abortRun()
    await kill()
    await Promise.all(broken)

    const again = at2.chat({ id: 'page' })
    const front2 = at2.front('front', [{ id: '1', ...said }])
    const heard: string[] = []
    const subscribed = async () => {
      for await (const { payload } of (await at2.agent()).resubscribeTask({ tenant: '', id }))
        heard.push(payload?.$case === 'artifactUpdate' ? wordsOf(payload.value.artifact) : '')
    }
    const all = [again.resumeStream(), subscribed()]
    await expect.poll(() => heard.length).toBeGreaterThan(0)
    await expect.poll(() => model.requests.length, { timeout: 30_000 }).toBeGreaterThan(1)
    going.resolve()
    await Promise.all(all)
    await front2.runAgent({ runId: 'one' })
    const answer = await at2.openai.chat.completions.create(body, { headers })
    expect(told(again)).toBe('The whole.')
    expect(front2.messages.at(-1)).toMatchObject({ role: 'assistant', content: 'The whole.' })
    expect(answer.choices[0]?.message.content).toBe('The whole.')
    expect(heard.join('')).toBe('The whole.')
    // Each turn went on once.
    expect(model.requests).toHaveLength(4)
  })

  test('while a person or a client is asked: both answer the other one', async () => {
    const tools = [{ type: 'function' as const, function: { name: 'where' } }]
    const { child, kill, at1, at2 } = await open(databaseUrl, [
      ...['Logs are gone.', 'Mail is gone.', 'Pots are gone.', 'You are in Lusaka.'],
    ])
    const chat = at1.chat({ id: 'asked-page' })
    await chat.sendMessage({ text: 'Wipe the logs' })
    const front = at1.front('asked-front')
    front.addMessage({ id: '1', role: 'user', content: 'Wipe the mail' })
    await front.runAgent()
    const task = await (await at1.agent()).sendMessage(message('Wipe the pots'))
    expect(task).toMatchObject({ status: { state: TaskState.TASK_STATE_INPUT_REQUIRED } })
    const where = { role: 'user' as const, content: 'Where am I?' }
    const asked = { model: 'oracle', messages: [where], tools }
    const parked = await at1.openai.chat.completions.create(asked)
    const [waiting] = parked.choices[0]?.message.tool_calls ?? []
    await kill()
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
      where,
      { role: 'assistant' as const, content: null, tool_calls: waiting ? [waiting] : [] },
      { role: 'tool' as const, tool_call_id: waiting?.id ?? '', content: 'Lusaka' },
    ]
    const goesOn = await at2.openai.chat.completions.create({ ...asked, messages })
    expect(goesOn.choices[0]?.message.content).toBe('You are in Lusaka.')
    expect(wiped).toEqual(['logs', 'mail', 'pots'])
    await expect(child.said(/wiped/)).rejects.toThrow('ended')
  })
})
