import { randomUUID } from 'node:crypto'
import { Chat } from '@ai-sdk/react'
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
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import aiSdk from './index.ts'

const wiped: string[] = []
const causes: unknown[] = []
const own = definePlugin({
  name: 'own',
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
        emit.progress(1, 2, 'half')
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

const listed = z.object({ messages: z.array(z.looseObject({})) })

type Env = Readonly<Record<string, string>>
type Options = Omit<ChatInit<UIMessage>, 'transport'> & {
  readonly headers?: Env
  readonly body?: object
}

async function open(steps: readonly ScriptedStep[], env: Env = {}) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [aiSdk, own], model, env })
  const user = await app.user()
  const key = String((await user.post('/keys', { name: 'a page' })).body.key)
  const authorization = `Bearer ${key}`
  const chat = ({ headers, body, ...rest }: Options = {}) =>
    new Chat<UIMessage>({
      transport: new DefaultChatTransport({
        api: `${app.url}/ai-sdk/chat`,
        headers: { authorization, ...headers },
        ...(body && { body }),
      }),
      ...rest,
    })
  const ask = (path: string, method = 'GET') =>
    fetch(`${app.url}/ai-sdk/chat/${path}`, { method, headers: { authorization } })
  return { model, app, user, key, chat, ask, [Symbol.asyncDispose]: () => app.close() }
}

/** The parts of the newest message in brief. */
const shown = (chat: { readonly messages: readonly UIMessage[] }) =>
  (chat.messages.at(-1)?.parts ?? []).flatMap((part) => {
    if (part.type === 'text' || part.type === 'reasoning') return `${part.type}: ${part.text}`
    if (isToolUIPart(part)) return `${part.type} ${part.state}`
    return part.type === 'step-start' ? [] : part.type
  })

test.each([
  ['length', 'length'],
  ['content_filter', 'content-filter'],
  [undefined, 'stop'],
] as const)('the last part says how the answer ended: %s', async (ended, finishReason) => {
  await using at = await open([{ text: 'Half of', ...(ended && { ended }) }])
  const ends: unknown[] = []
  const chat = at.chat({ onFinish: (end) => ends.push(end.finishReason) })
  await chat.sendMessage({ text: 'Tell' })
  expect(shown(chat)).toEqual(['text: Half of'])
  expect(ends).toEqual([finishReason])
})

await onEachDatabase('useChat’s own client', ({ databaseUrl }) => {
  const env: Env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test.each(['key', 'id'])(
    'what failed at once begins anew for the %s of the first request',
    async (by) => {
      const away = () => new RuntimeError('MODEL_UNAVAILABLE', 'Not now.', { status: 503 })
      await using at = await open([away(), away(), 'Here I am.'], env)
      const message = { role: 'user', parts: [{ type: 'text', text: 'Tell' }] }
      const said = by === 'id' ? { ...message, id: 'm1' } : message
      const body = { id: randomUUID(), messages: [said], trigger: 'submit-message' }
      const headers = {
        authorization: `Bearer ${at.key}`,
        ...(by === 'key' && { 'Idempotency-Key': 'again' }),
      }
      const ask = async () => {
        const { status, body: answer } = await at.app.post('/ai-sdk/chat', body, headers)
        return [status, JSON.stringify(answer).includes('Here')]
      }
      expect(await ask()).toEqual([503, false])
      expect(await ask()).toEqual([503, false])
      expect(await ask()).toEqual([200, true])
      expect(await ask()).toEqual([200, true])
      expect(at.model.requests).toHaveLength(3)
    },
  )

  test('words, reasoning, our tools and components; an edit and another answer branch off', async () => {
    await using at = await open(
      [
        { reasoning: 'Hm.', text: 'One moment.', calls: [{ call: 'count', args: {} }] },
        { text: 'It is 41.', usage: { inputTokens: 5, outputTokens: 2 } },
        'Two.',
        'Two again.',
        'Edited.',
      ],
      env,
    )
    const told: unknown[] = []
    const chat = at.chat({ id: 'a-chat', onData: (part) => told.push(part) })
    await chat.sendMessage({ text: 'Count' })
    expect(chat.error).toBeUndefined()
    expect(shown(chat)).toEqual([
      'reasoning: Hm.',
      'text: One moment.',
      'dynamic-tool output-available',
      'data-component',
      'text: It is 41.',
    ])
    const [, first] = chat.messages
    expect(first?.metadata).toMatchObject({ sessionId: 'a-chat', usage: { calls: 2 } })
    expect(first?.parts.find(isToolUIPart)).toMatchObject({
      providerExecuted: true,
      output: { counted: 41 },
    })
    expect(told).toContainEqual(
      expect.objectContaining({
        type: 'data-progress',
        data: expect.objectContaining({ done: 1, total: 2 }),
      }),
    )
    await chat.sendMessage({ text: 'Two' })
    await chat.regenerate()
    expect(shown(chat)).toEqual(['text: Two again.'])
    const spoken = at.model.requests.at(-1)?.messages.map(({ content }) => content)
    expect(spoken).not.toContain('Two.')
    expect(spoken).toContain('{"counted":41}')
    await chat.sendMessage({ text: 'Two, edited', messageId: chat.messages[2]?.id ?? '' })
    expect(shown(chat)).toEqual(['text: Edited.'])
    const page = await at.ask('a-chat/messages')
    const { messages } = listed.parse(await page.json())
    const again = at.chat({ messages: messages as never })
    expect(again.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
    ])
    expect(shown(again)).toEqual(['text: Edited.'])
    expect(shown({ messages: again.messages.slice(0, 2) }).toSorted()).toEqual(
      shown({ messages: chat.messages.slice(0, 2) }).toSorted(),
    )
    expect(again.messages.at(-1)?.id).toBe(chat.messages.at(-1)?.id)
    expect((await at.user.get('/messages/a-chat')).body.messages).toHaveLength(5)
    expect(at.model.remaining).toBe(0)
  })

  test('an approval and a no stay in one part each, two of a step one after the other', async () => {
    wiped.length = 0
    await using at = await open(
      [
        [call('wipe', { what: 'logs' }), call('wipe', { what: 'mail' })],
        'Logs are gone, mail is not.',
      ],
      env,
    )
    const chat = at.chat({
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    })
    await chat.sendMessage({ text: 'Wipe' })
    const waiting = () =>
      chat.messages
        .at(-1)
        ?.parts.filter(isToolUIPart)
        .find(({ state }) => state === 'approval-requested')
    expect(waiting()).toMatchObject({ input: { what: 'logs' } })
    expect(wiped).toEqual([])
    await chat.addToolApprovalResponse({ id: waiting()?.approval?.id ?? '', approved: true })
    await expect.poll(() => waiting()).toMatchObject({ input: { what: 'mail' } })
    expect(wiped).toEqual(['logs'])
    await chat.addToolApprovalResponse({
      id: waiting()?.approval?.id ?? '',
      approved: false,
      reason: 'Keep it',
    })
    await expect
      .poll(() => shown(chat))
      .toEqual([
        'dynamic-tool output-available',
        'dynamic-tool output-denied',
        'text: Logs are gone, mail is not.',
      ])
    expect(wiped).toEqual(['logs'])
    expect(JSON.stringify(at.model.requests.at(-1)?.messages)).toContain('Keep it')
    expect(at.model.remaining).toBe(0)
  })

  test('tools of the page are carried out by onToolCall, and the answer goes on in the same message', async () => {
    await using at = await open(
      [[call('where'), call('count'), call('flash')], 'You are in Lusaka.'],
      env,
    )
    const called: string[] = []
    const chat: Chat<UIMessage> = at.chat({
      id: 'with-tools',
      body: {
        tools: [
          { name: 'where', description: 'Where the person is.', schema: { type: 'object' } },
          { name: 'flash', description: 'Flashes.' },
        ],
      },
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall: { toolCallId, toolName } }) {
        called.push(toolName)
        if (toolName === 'where')
          void chat.addToolOutput({ tool: toolName, toolCallId, output: { city: 'Lusaka' } })
        else
          void chat.addToolOutput({
            tool: toolName,
            toolCallId,
            state: 'output-error',
            errorText: 'No lamp.',
          })
      },
    })
    await chat.sendMessage({ text: 'Where am I?' })
    await expect.poll(() => shown(chat).at(-1)).toBe('text: You are in Lusaka.')
    expect(called).toEqual(['where', 'flash'])
    expect(chat.messages).toHaveLength(2)
    const read = JSON.stringify(at.model.requests[1]?.messages)
    expect(read).toContain('Lusaka')
    expect(read).toContain('No lamp.')
    expect(at.model.remaining).toBe(0)
  })

  test('a page that reloads in mid-answer has every word once; without one, 204', async () => {
    const going = Promise.withResolvers<void>()
    await using at = await open(
      [
        [call('where')],
        async () => {
          await going.promise
          return { text: ['Half. ', 'Whole.'] }
        },
      ],
      env,
    )
    expect((await at.ask('reloaded/stream')).status).toBe(204)
    const body = { tools: [{ name: 'where' }] }
    const called: string[] = []
    const chat: Chat<UIMessage> = at.chat({
      id: 'reloaded',
      body,
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall({ toolCall: { toolCallId, toolName } }) {
        called.push(toolName)
        void chat.addToolOutput({ tool: toolName, toolCallId, output: 'here' })
      },
    })
    void chat.sendMessage({ text: 'Go' })
    await expect.poll(() => at.model.requests.length).toBe(2)
    await chat.stop()
    const page = listed.parse(await (await at.ask('reloaded/messages')).json())
    const again = at.chat({
      id: 'reloaded',
      messages: page.messages as never,
      onToolCall: ({ toolCall }) => void called.push(`${toolCall.toolName} again`),
    })
    const reading = again.resumeStream()
    await expect.poll(() => shown(again)).toEqual(['dynamic-tool output-available'])
    going.resolve()
    await reading
    expect(shown(again)).toEqual(['dynamic-tool output-available', 'text: Half. Whole.'])
    expect(again.messages.map(({ role }) => role)).toEqual(['user', 'assistant'])
    expect(called).toEqual(['where'])
    expect((await at.ask('reloaded/stream')).status).toBe(204)
  })

  test('a run that nobody reads ends by itself, at once by DELETE, and not by a reload', async () => {
    const stopped: string[] = []
    causes.length = 0
    const untilStopped =
      (name: string): ScriptedStep =>
      ({ signal }) =>
        new Promise((resolve) =>
          signal.addEventListener('abort', () => {
            stopped.push(name)
            resolve('Too late.')
          }),
        )
    await using at = await open(
      [untilStopped('alone'), untilStopped('deleted'), untilStopped('left')],
      env,
    )
    const begin = async (id: string, headers: Env, nth: number) => {
      const chat = at.chat({ id, headers })
      void chat.sendMessage({ text: 'Go' })
      await expect.poll(() => at.model.requests.length).toBe(nth)
      return chat
    }
    await (await begin('alone', { 'X-Alone': '1' }, 1)).stop()
    await expect.poll(() => stopped).toEqual(['alone'])
    await expect.poll(() => causes).toEqual(['alone'])
    const chat = await begin('deleted', {}, 2)
    expect((await at.ask('deleted/stream', 'DELETE')).status).toBe(204)
    await expect.poll(() => stopped).toEqual(['alone', 'deleted'])
    await expect.poll(() => chat.status).toBe('ready')
    await (await begin('left', { 'X-Alone': '0' }, 3)).stop()
    await expect.poll(() => stopped).toEqual(['alone', 'deleted', 'left'])
  })
})
