/**
 * Measures each wire to a model: the user CPU time of the client, beside the one of chat completions, for one streamed call, and for
 * two calls of which the first is thought about, calls two tools and is signed, and the second gives back what was signed.
 * The fake provider answers from a process of its own, and the wires take turns in one run, so that all have the same noise.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Assembly, type Message, type Model, type ModelRequest } from '#core/models'
import { fakeProvider } from '#core/testing'
import { MessagesModel } from '../plugins/models-anthropic/model.ts'
import { GenerateModel } from '../plugins/models-google/model.ts'
import { OllamaModel } from '../plugins/models-ollama/model.ts'
import { ChatModel } from '../plugins/models-openai/chat/model.ts'
import { compatible } from '../plugins/models-openai/compatible.ts'
import { openResponses } from '../plugins/models-openai/responses/open.ts'
import { median } from './support/target.ts'

const rounds = 15
const perRound = 60
const warmUp = 150
/** A wire costs at most so many times what chat completions cost. */
const mostRatio = 1.25

const steps = 'Look at both days.'
const result = 'warm and dry in Lusaka'
const answer = Array.from({ length: 40 }, (_, nth) => ` word${nth}`)

async function serve(): Promise<void> {
  const provider = await fakeProvider({ key: 'bench-key', strict: false })
  const called = (nth: number) => ({ name: `tool_${nth}`, args: { city: 'Lusaka', days: nth } })
  provider.otherwise = ({ text }) =>
    text.includes(steps) && !text.includes(result)
      ? { reasoning: 'I look at both days.', calls: [called(1), called(2)] }
      : { text: answer }
  setInterval(() => (provider.requests.length = 0), 1000)
  process.once('disconnect', () => process.exit())
  process.send?.(provider.url)
}

/** A model of each wire, chat completions first. */
function modelsAt(baseUrl: string): Record<string, Model> {
  const at = { name: 'fake', apiKey: 'bench-key', baseUrl }
  const row = compatible.openai
  if (!row) throw new Error('The table of providers has no OpenAI.')
  return {
    chat: new ChatModel({ ...at, id: 'openai/fake', row }),
    Messages: new MessagesModel({ ...at, id: 'anthropic/fake' }),
    Responses: openResponses({ ...at, id: 'openai/other', row }),
    generateContent: new GenerateModel({ ...at, id: 'google/fake' }),
    Ollama: new OllamaModel({ id: 'ollama/fake', name: 'fake', host: baseUrl }, {}),
  }
}

const tools = Array.from({ length: 5 }, (_, nth) => ({
  name: `tool_${nth}`,
  description: 'Reads the weather of a city for some days.',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer', minimum: 1, maximum: 7 } },
    required: ['city'],
  },
}))
const request = (last = 'And tomorrow?'): ModelRequest => ({
  messages: [
    { role: 'system', content: 'You are an assistant that acts through tools. '.repeat(20) },
    ...Array.from({ length: 10 }, (_, nth) =>
      nth % 2 === 0
        ? ({ role: 'user', id: `u${nth}`, content: 'What is the weather in Lusaka?' } as const)
        : ({ role: 'assistant', id: `a${nth}`, content: 'It is warm and dry today.' } as const),
    ),
    { role: 'user', id: 'last', content: last },
  ],
  tools,
  signal: new AbortController().signal,
})

async function call(model: Model): Promise<void> {
  let words = 0
  for await (const delta of model.stream(request())) if (delta.type === 'text') words++
  if (words === 0) throw new Error(`"${model.id}" said nothing.`)
}

/** A step with two tools, and the call that gives back what the provider gave with it. */
async function step(model: Model): Promise<void> {
  const asked = request(steps)
  const { content, toolCalls, provider: data } = await heard(model, asked)
  if (toolCalls.length !== 2) throw new Error(`"${model.id}" called ${toolCalls.length} tools.`)
  const by = model.origin ?? model.id
  const messages: Message[] = [
    ...asked.messages,
    {
      ...{ role: 'assistant', id: 'step', content, toolCalls },
      ...(data !== undefined && { provider: { by, data } }),
    },
    ...toolCalls.map(({ id, name }): Message => ({
      ...{ role: 'tool', id: `r${id}`, toolCallId: id, name },
      content: result,
    })),
  ]
  const { content: said } = await heard(model, { ...asked, messages })
  if (!said.includes('word39')) throw new Error(`"${model.id}" did not end its answer.`)
}

async function heard(model: Model, asked: ModelRequest) {
  const gathered = new Assembly()
  for await (const delta of model.stream(asked)) gathered.add(delta)
  return gathered.reply()
}

async function measured(
  model: Model,
  times: number,
  ask: (model: Model) => Promise<void>,
): Promise<number> {
  const before = process.cpuUsage()
  for (let nth = 0; nth < times; nth++) await ask(model)
  return process.cpuUsage(before).user / times
}

async function compared(url: string, what: string, ask: (model: Model) => Promise<void>) {
  const asked = Object.entries(modelsAt(url)).map(([name, model]) => ({
    ...{ name, model },
    costs: [] as number[],
  }))
  for (const { model } of asked) await measured(model, warmUp, ask)
  for (let round = 0; round < rounds; round++)
    for (const { model, costs } of asked) costs.push(await measured(model, perRound, ask))
  const [chat = 0] = asked.map(({ costs }) => median(costs))
  console.log(what)
  for (const { name, costs } of asked) {
    const ratio = median(costs) / chat
    const verdict = ratio <= mostRatio ? '' : `  more than ${mostRatio}`
    console.log(
      `  ${name.padEnd(16)} ${median(costs).toFixed(0).padStart(5)} µs of user CPU, ${ratio.toFixed(2)} times chat${verdict}`,
    )
  }
}

async function run(): Promise<void> {
  const server = fork(import.meta.filename, ['serve'])
  const [url] = (await once(server, 'message')) as [string]
  await compared(url, 'one streamed call with five tools declared', call)
  await compared(
    url,
    'a step with two tools and what the provider signed, and the call after it',
    step,
  )
  server.disconnect()
}

await (process.argv[2] === 'serve' ? serve() : run())
