import { describe, expect, test } from 'vitest'
import type { Message, ToolSpec } from '../../core/plugin.ts'
import { requestBody } from '../../core/runtime/model/openai-request.ts'

const system = (content: string): Message => ({ role: 'system', content })
const user = (content: string): Message => ({ role: 'user', id: content, content })
const said = (content: string): Message => ({ role: 'assistant', id: content, content })
const asks = (id: string): Message => ({
  role: 'assistant',
  id,
  content: '',
  toolCalls: [{ id, name: 'look', args: { at: 'it "so" \\ 水' } }],
})
const result = (id: string): Message => ({
  role: 'tool',
  id: `${id}-result`,
  toolCallId: id,
  name: 'look',
  content: `seen ${id} \ud800 🌍`,
})
const body = (messages: readonly Message[], tools: readonly ToolSpec[] = []) =>
  requestBody('m', { messages, tools }, true)
/** What a process says that never sent anything before: a copy is known to nobody. */
const anew = (messages: readonly Message[]) => body(structuredClone(messages))

describe('the body of a request', () => {
  test('is the same however much of the conversation was sent before', () => {
    let said: readonly Message[] = []
    for (let turn = 0; turn < 30; turn++) {
      said = [...said, user(`question ${turn}`)]
      for (let step = 0; step < turn % 4; step++) {
        const all = [system(`Now it is ${turn}:${step}.`), ...said]
        expect(body(all)).toBe(anew(all))
        const id = `${turn}-${step}`
        said = [...said, asks(id), result(id)]
      }
      const all = [system('The end.'), ...said]
      expect(body(all)).toBe(anew(all))
      expect(JSON.parse(body(all)).messages).toHaveLength(all.length)
      said = [...said, { role: 'assistant', id: `a${turn}`, content: `answer ${turn}` }]
    }
  })

  test('knows a conversation that was cut, went another way, or was changed in place', () => {
    const messages = [user('a'), said('b'), user('c'), said('d'), user('e')]
    const check = (...some: readonly Message[]) => expect(body(some)).toBe(anew(some))
    check(...messages.slice(0, 3))
    check(...messages)
    check(...messages)
    check(...messages.slice(2)) // the oldest did not fit any more
    check(...messages.slice(2), said('f'))
    check(...messages.slice(0, 3), said('another way')) // from a place that had gone on already
    check(...messages, said('g'))
    check(system('New.'), ...messages, said('h'))
    Object.assign(messages[1]!, { content: 'something else' })
    check(...messages, user('i'))
    check(system('Only the system.'))
    check()
  })

  test('goes to two conversations that share their beginning', () => {
    const shared = [user('a'), said('b')]
    for (const rest of [['c'], ['d'], ['c', 'e'], ['d', 'f'], ['c', 'e', 'g']]) {
      const all = [...shared, ...rest.map(user)]
      expect(body(all)).toBe(anew(all))
    }
  })

  test('asks for usage and names tools only where there are some', () => {
    const tool: ToolSpec = { name: 'look', description: 'Looks.', parameters: { type: 'object' } }
    expect(JSON.parse(requestBody('a "model"', { messages: [], tools: [] }, false))).toEqual({
      model: 'a "model"',
      stream: true,
      messages: [],
    })
    expect(JSON.parse(body([user('Hi')], [tool, tool]))).toMatchObject({
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: { name: 'look' } }, { type: 'function' }],
    })
  })
})
