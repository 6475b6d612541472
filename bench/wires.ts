/**
 * Measures one streamed call of each wire to a model: the user CPU time of the client, beside the one of chat completions.
 * The fake provider answers from a process of its own, and the wires take turns in one run, so that all have the same noise.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Model, ModelRequest } from '#core/models'
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

const answer = Array.from({ length: 40 }, (_, nth) => ` word${nth}`)

async function serve(): Promise<void> {
  const provider = await fakeProvider({ key: 'bench-key', strict: false })
  provider.otherwise = { text: answer }
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
const request = (): ModelRequest => ({
  messages: [
    { role: 'system', content: 'You are an assistant that acts through tools. '.repeat(20) },
    ...Array.from({ length: 10 }, (_, nth) =>
      nth % 2 === 0
        ? ({ role: 'user', id: `u${nth}`, content: 'What is the weather in Lusaka?' } as const)
        : ({ role: 'assistant', id: `a${nth}`, content: 'It is warm and dry today.' } as const),
    ),
    { role: 'user', id: 'last', content: 'And tomorrow?' },
  ],
  tools,
  signal: new AbortController().signal,
})

async function call(model: Model): Promise<void> {
  let words = 0
  for await (const delta of model.stream(request())) if (delta.type === 'text') words++
  if (words === 0) throw new Error(`"${model.id}" said nothing.`)
}

async function measured(model: Model, calls: number): Promise<number> {
  const before = process.cpuUsage()
  for (let nth = 0; nth < calls; nth++) await call(model)
  return process.cpuUsage(before).user / calls
}

async function run(): Promise<void> {
  const server = fork(import.meta.filename, ['serve'])
  const [url] = (await once(server, 'message')) as [string]
  const asked = Object.entries(modelsAt(url)).map(([name, model]) => ({
    name,
    model,
    costs: [] as number[],
  }))
  for (const { model } of asked) await measured(model, warmUp)
  for (let round = 0; round < rounds; round++)
    for (const { model, costs } of asked) costs.push(await measured(model, perRound))
  const [chat = 0] = asked.map(({ costs }) => median(costs))
  for (const { name, costs } of asked) {
    const ratio = median(costs) / chat
    const verdict = ratio <= mostRatio ? '' : `  more than ${mostRatio}`
    console.log(
      `${name.padEnd(16)} ${median(costs).toFixed(0).padStart(5)} µs of user CPU a call, ${ratio.toFixed(2)} times chat${verdict}`,
    )
  }
  server.disconnect()
}

await (process.argv[2] === 'serve' ? serve() : run())
