import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Message, Model, ToolSpec } from '../../core/plugin.ts'
import { type FakeOpenAi, fakeOpenAi } from '../support/fake-openai.ts'
import { answered, openAiInApp } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

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

let provider: FakeOpenAi
let model: Model
beforeEach(async () => {
  provider = await fakeOpenAi(() => 'Fine.')
  onTestFinished(() => provider.close())
  ;({ model } = await openAiInApp(provider.url))
})

/** The text that the provider gets. */
async function body(messages: readonly Message[], tools: readonly ToolSpec[] = []) {
  await answered(model.stream(ask(messages, tools)))
  return provider.requests.at(-1)?.text ?? ''
}
/** What a process says that never sent anything before: a copy is known to nobody. */
const anew = (messages: readonly Message[]) => body(structuredClone(messages))

describe('the body of a request', () => {
  test('is the same however much of the conversation was sent before', async () => {
    let said: readonly Message[] = []
    for (let turn = 0; turn < 30; turn++) {
      said = [...said, user(`question ${turn}`)]
      for (let step = 0; step < turn % 4; step++) {
        const all = [system(`Now it is ${turn}:${step}.`), ...said]
        expect(await body(all)).toBe(await anew(all))
        const id = `${turn}-${step}`
        said = [...said, asks(id), result(id)]
      }
      const all = [system('The end.'), ...said]
      expect(await body(all)).toBe(await anew(all))
      expect(JSON.parse(await body(all)).messages).toHaveLength(all.length)
      said = [...said, { role: 'assistant', id: `a${turn}`, content: `answer ${turn}` }]
    }
  })

  test('knows a conversation that was cut, went another way, or was changed in place', async () => {
    const messages = [user('a'), said('b'), user('c'), said('d'), user('e')]
    const check = async (...some: readonly Message[]) =>
      expect(await body(some)).toBe(await anew(some))
    await check(...messages.slice(0, 3))
    await check(...messages)
    await check(...messages)
    await check(...messages.slice(2)) // the oldest did not fit any more
    await check(...messages.slice(2), said('f'))
    await check(...messages.slice(0, 3), said('another way')) // from a place that had gone on already
    await check(...messages, said('g'))
    await check(system('New.'), ...messages, said('h'))
    Object.assign(messages[1]!, { content: 'something else' })
    await check(...messages, user('i'))
    await check(system('Only the system.'))
    await check()
  })

  test('has neighbours of the assistant as one message, for some servers refuse two in a row', async () => {
    const messages = [system('S'), user('a'), said('b'), said('c'), said(''), said('d'), user('e')]
    const sent = async (...all: readonly Message[]): Promise<unknown> =>
      JSON.parse(await body(all)).messages
    const joined = [
      { role: 'system', content: 'S' },
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b\n\nc\n\nd' },
      { role: 'user', content: 'e' },
    ]
    expect(await sent(...messages)).toEqual(joined)
    expect(messages.map(({ content }) => content)).toEqual(['S', 'a', 'b', 'c', '', 'd', 'e'])
    // What a plugin says before a call joins the call; after a call nothing joins, for its results stand between.
    const later = [...messages, said('f'), asks('g'), result('g'), said('h'), said('i'), user('j')]
    const [f, call, h] = ((await sent(...later)) as object[]).slice(4)
    expect(f).toMatchObject({ role: 'assistant', content: 'f', tool_calls: [{ id: 'g' }] })
    expect(call).toMatchObject({ role: 'tool', tool_call_id: 'g' })
    expect(h).toEqual({ role: 'assistant', content: 'h\n\ni' })
  })

  test('is the same for a conversation that was sent up to the words with which the next go on', async () => {
    const messages = [user('a'), said('b'), said('c'), user('d'), said('e'), asks('f'), result('f')]
    const later = [...messages, said('g'), said('h'), user('i')]
    for (const from of [0, 1, 2])
      for (let to = from + 1; to <= later.length; to++) {
        const some = later.slice(from, to)
        expect(await body(some)).toBe(await anew(some))
      }
  })

  test('goes to two conversations that share their beginning', async () => {
    const shared = [user('a'), said('b')]
    for (const rest of [['c'], ['d'], ['c', 'e'], ['d', 'f'], ['c', 'e', 'g']]) {
      const all = [...shared, ...rest.map(user)]
      expect(await body(all)).toBe(await anew(all))
    }
  })

  test('asks for usage and names tools only where there are some', async () => {
    const tool: ToolSpec = { name: 'look', description: 'Looks.', parameters: { type: 'object' } }
    const plain = await fakeOpenAi(({ body }) =>
      body.stream_options ? { status: 400, body: 'Unknown field stream_options' } : 'Fine.',
    )
    onTestFinished(() => plain.close())
    const app = await openAiInApp(plain.url, { name: 'a"model"' })
    await app.reply(ask([]))
    expect(plain.requests.at(-1)?.body).toEqual({
      model: 'a"model"',
      stream: true,
      messages: [],
    })
    expect(JSON.parse(await body([user('Hi')], [tool, tool]))).toMatchObject({
      stream_options: { include_usage: true },
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'function', function: { name: 'look' } }, { type: 'function' }],
    })
  })
})
