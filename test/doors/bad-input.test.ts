import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import agUi from '../../plugins/ag-ui/index.ts'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'

const own = definePlugin({
  name: 'own',
  summary: 'Has a tool.',
  visibility: 'always',
  tools: { count: { description: 'Counts.', input: z.object({}), run: () => 1 } },
})

interface Said {
  readonly role: string
  readonly text: unknown
}

/** What a request of each door is made of: its address, and its words for an id, messages and tools. */
const doors = {
  '/ai-sdk/chat': {
    id: 'id',
    message: ({ role, text }: Said) => ({
      ...{ id: randomUUID(), role },
      parts: typeof text === 'string' ? [{ type: 'text', text }] : text,
    }),
    schema: 'schema',
    rest: () => ({}),
    result: () => ({
      ...{ id: 'a', role: 'assistant' },
      parts: [
        { type: 'tool-where', toolCallId: 'none', state: 'output-available', input: {}, output: 1 },
      ],
    }),
  },
  '/ag-ui': {
    id: 'threadId',
    message: ({ role, text }: Said) => ({ id: randomUUID(), role, content: text }),
    schema: 'parameters',
    rest: () => ({ runId: randomUUID() }),
    result: () => ({ id: 'a', role: 'tool', toolCallId: 'none', content: '1' }),
  },
} as const

test.each(Object.entries(doors))(
  '%s refuses what cannot be, and begins nothing',
  async (path, door) => {
    const model = scriptedModel([])
    await using app = await testApp({ plugins: [aiSdk, agUi, own], model })
    const user = await app.user()
    const { body } = await user.post('/keys', { name: 'a client' })
    const send = async (given: unknown) => {
      const answer = await fetch(`${app.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${body.key}`, 'content-type': 'application/json' },
        body: typeof given === 'string' ? given : JSON.stringify(given),
      })
      const text = await answer.text()
      // Every refusal is one sentence with its code, and no stack.
      expect(JSON.parse(text)).toMatchObject({
        message: expect.any(String),
        code: expect.stringMatching(/^[A-Z_]+$/),
      })
      expect(text).not.toContain('node_modules')
      return answer.status
    }
    const says = (text: unknown = 'Hello', role = 'user') => door.message({ role, text })
    const asking = (rest: object = {}) => ({
      ...{ [door.id]: 'a', messages: [says()] },
      ...door.rest(),
      ...rest,
    })
    const tools = (...list: object[]) => asking({ tools: list })
    const bodies: readonly (readonly [status: number, what: string, body: unknown])[] = [
      [400, 'no JSON', 'not json'],
      [400, 'a list', '[]'],
      [400, '65 levels', '['.repeat(65) + ']'.repeat(65)],
      [400, 'U+0000', asking({ messages: [says('a\u0000')] })],
      [400, '__proto__', `{"__proto__":{},${JSON.stringify(asking()).slice(1)}`],
      [413, '4 MiB and one byte', `"${'x'.repeat(4 * 1024 * 1024 - 1)}"`],
      [400, 'no messages', asking({ messages: [] })],
      [400, 'messages that are none', asking({ messages: ['Hello'] })],
      [400, 'no user', asking({ messages: [says('a', 'system')] })],
      [400, 'the assistant last', asking({ messages: [says(), says('a', 'assistant')] })],
      [400, 'a role that is none', asking({ messages: [says('a', 'robot')] })],
      [400, 'spaces', asking({ messages: [says('  ')] })],
      [400, 'parts that nobody knows', asking({ messages: [says([{ type: 'hologram' }])] })],
      [400, '100,000 messages', asking({ messages: Array(100_000).fill(1) })],
      [400, '300 KiB', asking({ messages: [says('x'.repeat(300 * 1024))] })],
      [400, 'our own name', tools({ name: 'count' })],
      [400, 'a space', tools({ name: 'a b' })],
      [400, 'one name twice', tools({ name: 'a' }, { name: 'a' })],
      [400, '201 tools', tools(...Array.from({ length: 201 }, (_, i) => ({ name: `t${i}` })))],
      [
        400,
        '33 KiB',
        tools({ name: 'a', [door.schema]: { type: 'object', x: 'y'.repeat(33_000) } }),
      ],
      ...['', '.', '..', 'x'.repeat(10_000), 'a\nb', 'a\u0000'].map(
        (id) =>
          [400, `the id ${JSON.stringify(id.slice(0, 9))}`, asking({ [door.id]: id })] as const,
      ),
    ]
    for (const [status, what, given] of bodies)
      expect([what, await send(given)]).toEqual([what, status])
    // A result for which nobody asked has no conversation in which it could count.
    expect([404, 409]).toContain(await send(asking({ messages: [says(), door.result()] })))
    expect(model.requests).toHaveLength(0)
    expect((await user.get('/sessions')).body.total).toBe(0)
  },
)

test('ten times the same request at once is one turn', async () => {
  const model = scriptedModel([
    { text: 'Once.', delayMs: 200 },
    { text: 'Once.', delayMs: 200 },
  ])
  await using app = await testApp({ plugins: [aiSdk, agUi], model })
  const user = await app.user()
  const { body } = await user.post('/keys', { name: 'a client' })
  for (const [nth, [path, door]] of Object.entries(doors).entries()) {
    const request = {
      ...{ [door.id]: `same-${nth}`, ...door.rest() },
      messages: [door.message({ role: 'user', text: 'Hello' })],
    }
    const send = async () => {
      const answer = await fetch(`${app.url}${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${body.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(request),
      })
      const told = await answer.text()
      const pieces = [...told.matchAll(/"delta":"([^"]*)"/g)]
      return [answer.status, pieces.map(([, piece]) => piece).join('')]
    }
    expect(await Promise.all(Array.from({ length: 10 }, send))).toEqual(
      Array(10).fill([200, 'Once.']),
    )
    expect(model.requests).toHaveLength(nth + 1)
  }
})

/** Requests of each door for a turn with a tool of its client, and for going on with what the client found. */
const withTool = {
  '/openai/v1/chat/completions': {
    asks: (): object => ({
      model: 'oracle',
      messages: [{ role: 'user', content: 'Where?' }],
      tools: [{ type: 'function', function: { name: 'where' } }],
    }),
    callOf: (text: string) => /"id":"(call_\w+)"/.exec(text)?.[1] ?? '',
    results: (ids: readonly string[]): object => ({
      model: 'oracle',
      messages: [
        { role: 'user', content: 'Where?' },
        ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'Lusaka' })),
      ],
    }),
  },
  '/ai-sdk/chat': {
    asks: (): object => ({
      id: 'here',
      messages: [{ id: 'a', role: 'user', parts: [{ type: 'text', text: 'Where?' }] }],
      tools: [{ name: 'where' }],
    }),
    callOf: (text: string) => /"toolCallId":"([^"]+)"/.exec(text)?.[1] ?? '',
    results: (ids: readonly string[]): object => ({
      id: 'here',
      messages: [
        { id: 'a', role: 'user', parts: [{ type: 'text', text: 'Where?' }] },
        {
          ...{ id: 'b', role: 'assistant' },
          parts: ids.map((toolCallId) => ({
            ...{ type: 'tool-where', toolCallId, state: 'output-available', input: {} },
            output: 'Lusaka',
          })),
        },
      ],
      tools: [{ name: 'where' }],
    }),
  },
  '/ag-ui': {
    asks: (): object => ({
      ...{ threadId: 'here', runId: randomUUID() },
      messages: [{ id: 'a', role: 'user', content: 'Where?' }],
      tools: [{ name: 'where' }],
    }),
    callOf: (text: string) => /"toolCallId":"([^"]+)"/.exec(text)?.[1] ?? '',
    results: (ids: readonly string[]): object => ({
      ...{ threadId: 'here', runId: randomUUID() },
      messages: [
        { id: 'a', role: 'user', content: 'Where?' },
        ...ids.map((toolCallId, n) => ({
          ...{ id: `r${n}`, role: 'tool', toolCallId, content: 'Lusaka' },
        })),
      ],
      tools: [{ name: 'where' }],
    }),
  },
}

/** An app in which two people have a key each. */
async function twoPeople(steps: readonly ScriptedStep[]) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [aiSdk, agUi, openaiApi, own], model })
  onTestFinished(() => app.close())
  const person = async (path: string) => {
    const { body } = await (await app.user()).post('/keys', { name: 'a client' })
    return async (given: object) => {
      const answer = await fetch(app.url + path, {
        method: 'POST',
        headers: { authorization: `Bearer ${body.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(given),
      })
      return { status: answer.status, text: await answer.text() }
    }
  }
  return { model, person }
}

test.each(Object.entries(withTool))(
  '%s: a result of another’s run counts for nobody, and two of one call count once',
  async (path, door) => {
    const { model, person } = await twoPeople([call('where'), 'You are in Lusaka.'])
    const [mine, other] = [await person(path), await person(path)]
    const id = door.callOf((await mine(door.asks())).text)
    expect(id).not.toBe('')
    const stolen = await other(door.results([id]))
    expect([400, 404, 409]).toContain(stolen.status)
    expect(stolen.text).not.toContain('Lusaka')
    expect(model.requests).toHaveLength(1)
    // Both in one request, and once more: whichever of them is refused, the answer is made once.
    const told = [await mine(door.results([id, id])), await mine(door.results([id]))]
    expect(told.some(({ status, text }) => status === 200 && text.includes('Lusaka'))).toBe(true)
    expect(model.requests).toHaveLength(2)
  },
)

test.each(Object.entries(withTool))(
  '%s: arguments of a client’s tool that are no object come to no client',
  async (path, door) => {
    for (const args of ['[1]', '"text"', '7', '{"a":']) {
      const { model, person } = await twoPeople([{ call: 'where', args }, 'Sorry.'])
      const told = await (await person(path))(door.asks())
      expect([args, told.status, told.text.includes('Sorry.')]).toEqual([args, 200, true])
      const read = model.requests[1]?.messages.findLast(({ role }) => role === 'tool')
      expect([args, read?.content]).toEqual([args, expect.stringMatching(/object|JSON/i)])
    }
  },
)
