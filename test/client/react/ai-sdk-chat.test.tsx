import { useChat } from '@ai-sdk/react'
import {
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type ChatInit,
  type UIMessage,
} from 'ai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Delta, type Model } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import aiSdk from '../../../plugins/ai-sdk/index.ts'
import { hook } from '../page.ts'

const wiped: string[] = []
const causes: unknown[] = []
const tools = definePlugin({
  name: 'tools',
  summary: 'Has tools.',
  visibility: 'always',
  runs: { end: ({ cause }) => void causes.push(cause) },
  tools: {
    count: {
      description: 'Counts.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: (_, { emit }) => {
        emit.component('gauge', { value: 41 })
        return { counted: 41 }
      },
    },
    wipe: {
      description: 'Wipes.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => (wiped.push(what), 'wiped'),
    },
  },
})

type Options = Omit<ChatInit<UIMessage>, 'transport'> & {
  readonly resume?: boolean
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
}

async function open(steps: readonly ScriptedStep[], own?: Model['stream']) {
  wiped.length = 0
  causes.length = 0
  const model = scriptedModel(steps)
  const app = await testApp({
    plugins: [aiSdk, tools],
    model: own ? { ...model, stream: own } : model,
  })
  const user = await app.user()
  const { body: made } = await user.post('/keys', { name: 'a page' })
  const authorization = `Bearer ${made.key}`
  const api = `${app.url}/ai-sdk/chat`
  const statuses: number[] = []
  return {
    model,
    /** How the requests of the pages were answered. */
    statuses,
    /** Opens a page with the chat in it. */
    page({ headers, body, ...options }: Options) {
      const transport = new DefaultChatTransport({
        ...{ api, headers: { authorization, ...headers } },
        ...(body && { body }),
        async fetch(url, init) {
          const answer = await fetch(url, init)
          statuses.push(answer.status)
          return answer
        },
      })
      return hook(() => useChat({ transport, ...options }))
    },
    ask: (path: string, method = 'GET') =>
      fetch(`${api}/${path}`, { method, headers: { authorization } }),
    /** What a page finds of a chat when it opens. */
    async kept(id: string): Promise<UIMessage[]> {
      return (await (await this.ask(`${id}/messages`)).json()).messages
    },
    [Symbol.asyncDispose]: () => app.close(),
  }
}

/** The parts of all messages in brief. */
const shown = (messages: readonly UIMessage[]) =>
  messages.flatMap(({ role, parts }) =>
    parts.flatMap((part) => {
      if (part.type === 'text') return role === 'user' ? part.text : `text: ${part.text}`
      if (part.type === 'reasoning') return `reasoning: ${part.text}`
      if (isToolUIPart(part)) return `tool ${part.state}`
      return part.type === 'step-start' ? [] : part.type
    }),
  )
const toolParts = (messages: readonly UIMessage[]) =>
  messages.flatMap(({ parts }) => parts.filter(isToolUIPart))
const asked = (messages: readonly UIMessage[]) =>
  toolParts(messages).find(({ state }) => state === 'approval-requested')

test('useChat shows words, reasoning, tools and components, and another answer in place of one', async () => {
  await using at = await open([
    { reasoning: 'Hm.', text: 'One moment.', calls: [call('count')] },
    'It is 41.',
    'It is forty-one.',
  ])
  const page = at.page({ id: 'mine' })
  void page.now.sendMessage({ text: 'Count' })
  const before = [
    ...['Count', 'reasoning: Hm.', 'text: One moment.', 'tool output-available', 'data-component'],
  ]
  await expect.poll(() => shown(page.now.messages)).toEqual([...before, 'text: It is 41.'])
  await expect.poll(() => page.now.status).toBe('ready')
  expect(page.now.messages.at(-1)?.parts).toContainEqual(
    expect.objectContaining({
      type: 'data-component',
      data: { name: 'gauge', args: { value: 41 } },
    }),
  )
  void page.now.regenerate()
  await expect.poll(() => shown(page.now.messages)).toEqual(['Count', 'text: It is forty-one.'])
  const read = at.model.requests.at(-1)?.messages.map(({ content }) => content)
  expect(read).toContain('Count')
  expect(read).not.toContain('It is 41.')
  expect(at.model.remaining).toBe(0)
})

test('useChat asks about two calls of a step: the yes and the no stand in the part of their call', async () => {
  await using at = await open([
    [call('wipe', { what: 'logs' }), call('wipe', { what: 'mail' })],
    'Logs are gone, mail is not.',
  ])
  const page = at.page({
    id: 'mine',
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  })
  void page.now.sendMessage({ text: 'Wipe' })
  await expect.poll(() => asked(page.now.messages)?.input).toEqual({ what: 'logs' })
  await expect.poll(() => page.now.status).toBe('ready')
  expect(wiped).toEqual([])
  const answer = (approved: boolean) =>
    page.now.addToolApprovalResponse({ id: asked(page.now.messages)?.approval?.id ?? '', approved })
  void answer(true)
  await expect.poll(() => asked(page.now.messages)?.input).toEqual({ what: 'mail' })
  await expect.poll(() => page.now.status).toBe('ready')
  expect(wiped).toEqual(['logs'])
  void answer(false)
  await expect
    .poll(() => shown(page.now.messages))
    .toEqual([
      ...[
        'Wipe',
        'tool output-available',
        'tool output-denied',
        'text: Logs are gone, mail is not.',
      ],
    ])
  expect(toolParts(page.now.messages).map(({ input }) => input)).toEqual([
    ...[{ what: 'logs' }, { what: 'mail' }],
  ])
  expect(page.now.messages).toHaveLength(2)
  expect(wiped).toEqual(['logs'])
  expect(at.model.remaining).toBe(0)
})

test('useChat carries out the tools of its page by onToolCall, once each', async () => {
  await using at = await open([[call('where'), call('flash')], 'You are in Lusaka.'])
  const called: string[] = []
  const page = at.page({
    id: 'mine',
    body: { tools: [{ name: 'where' }, { name: 'flash' }] },
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    onToolCall({ toolCall: { toolCallId, toolName: tool } }) {
      called.push(tool)
      if (tool === 'where')
        void page.now.addToolOutput({ tool, toolCallId, output: { city: 'Lusaka' } })
      else
        void page.now.addToolOutput({
          ...{ tool, toolCallId, state: 'output-error', errorText: 'No lamp.' },
        })
    },
  })
  void page.now.sendMessage({ text: 'Where am I?' })
  await expect
    .poll(() => shown(page.now.messages))
    .toEqual([
      ...['Where am I?', 'tool output-available', 'tool output-error'],
      'text: You are in Lusaka.',
    ])
  expect(called).toEqual(['where', 'flash'])
  expect(page.now.messages).toHaveLength(2)
  const read = JSON.stringify(at.model.requests[1]?.messages)
  expect(read).toContain('Lusaka')
  expect(read).toContain('No lamp.')
})

test('useChat that resumes after a reload in mid-answer has no word twice', async () => {
  const going = Promise.withResolvers<void>()
  let asked = 0
  async function* tells(): AsyncGenerator<Delta> {
    if (++asked === 1) {
      yield { type: 'text', text: 'One moment. ' }
      yield { type: 'tool-call', index: 0, id: 'a', name: 'count', args: '{}' }
      return
    }
    yield { type: 'text', text: 'It is ' }
    await going.promise
    yield { type: 'text', text: 'forty-one.' }
  }
  await using at = await open([], tells)
  const first = at.page({ id: 'mine' })
  void first.now.sendMessage({ text: 'Count' })
  const before = ['Count', 'text: One moment. ', 'tool output-available', 'data-component']
  await expect.poll(() => shown(first.now.messages)).toEqual([...before, 'text: It is '])
  // The page goes, and its connection with it.
  void first.now.stop()
  first.unmount()

  const again = at.page({ id: 'mine', messages: await at.kept('mine'), resume: true })
  await expect.poll(() => shown(again.now.messages)).toEqual([...before, 'text: It is '])
  expect(again.now.status).toBe('streaming')
  going.resolve()
  await expect.poll(() => shown(again.now.messages)).toEqual([...before, 'text: It is forty-one.'])
  await expect.poll(() => again.now.status).toBe('ready')
  expect(again.now.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
  expect([asked, causes]).toEqual([2, [undefined]])
  expect(shown(await at.kept('mine')).at(-1)).toBe('text: It is forty-one.')
})

test('useChat that resumes a chat in which nothing goes on is answered 204, and changes nothing', async () => {
  await using at = await open(['Hello.'])
  const page = at.page({ id: 'mine' })
  void page.now.sendMessage({ text: 'Hi' })
  await expect.poll(() => page.now.status).toBe('ready')
  await expect.poll(() => shown(page.now.messages)).toEqual(['Hi', 'text: Hello.'])
  page.unmount()
  for (const id of ['mine', 'another']) {
    const before = at.statuses.length
    const idle = at.page({ id, messages: await at.kept(id), resume: true })
    await expect.poll(() => at.statuses.slice(before)).toEqual([204])
    await expect.poll(() => idle.now.status).toBe('ready')
    expect(idle.now.error).toBeUndefined()
    expect(shown(idle.now.messages)).toEqual(id === 'mine' ? ['Hi', 'text: Hello.'] : [])
    idle.unmount()
  }
})

test('stop of useChat drops the connection: the run ends when it was alone for so long, or at once by DELETE', async () => {
  const stopped: string[] = []
  const held =
    (name: string): ScriptedStep =>
    ({ signal }) =>
      new Promise((resolve) =>
        signal.addEventListener('abort', () => {
          stopped.push(name)
          resolve('Too late.')
        }),
      )
  await using at = await open([held('alone'), held('deleted')])
  const alone = at.page({ id: 'alone', headers: { 'x-alone': '1' } })
  void alone.now.sendMessage({ text: 'Go' })
  await expect.poll(() => at.model.requests.length).toBe(1)
  void alone.now.stop()
  await expect.poll(() => alone.now.status).toBe('ready')
  await expect.poll(() => [stopped, causes]).toEqual([['alone'], ['alone']])

  const deleted = at.page({ id: 'deleted' })
  void deleted.now.sendMessage({ text: 'Go' })
  await expect.poll(() => at.model.requests.length).toBe(2)
  expect((await at.ask('deleted/stream', 'DELETE')).status).toBe(204)
  await expect
    .poll(() => [stopped, causes])
    .toEqual([
      ['alone', 'deleted'],
      ['alone', 'stopped'],
    ])
  await expect.poll(() => deleted.now.status).toBe('ready')
  expect(deleted.now.error).toBeUndefined()
})
