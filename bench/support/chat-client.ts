import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Model, ModelRequest } from '#core/models'

/**
 * A chat client of one version of the runtime, in a process of its own. It asks as often as it is told, and answers with the
 * user CPU that this took. The folder of the version and the address of the provider are its arguments.
 */
const [root = '', baseUrl = ''] = process.argv.slice(2)

/** How many calls come together: a process with one call at a time mostly measures how it falls asleep and wakes up. */
const atOnce = 4

/** What the client is told to do. */
export interface ChatOrder {
  readonly way: 'stream' | 'streamTo'
  /** Whether each call begins another conversation, as the first one of a turn does after its server was restarted. */
  readonly isNew: boolean
  readonly times: number
}

async function openModel(): Promise<Model> {
  const from = async (path: string) => import(pathToFileURL(join(root, path)).href)
  const at = { name: 'fake', apiKey: 'bench-key', baseUrl }
  // Versions that know one wire keep it elsewhere.
  const before = await from('core/runtime/model/openai.ts').catch(() => undefined)
  if (before) return new before.OpenAiModel(at)
  const { ChatModel } = await from('plugins/models-openai/chat/model.ts')
  const { compatible } = await from('plugins/models-openai/compatible.ts')
  return new ChatModel({ ...at, id: 'openai/fake', row: compatible.openai })
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
const system = {
  role: 'system',
  content: 'You are an assistant that acts through tools. '.repeat(20),
} as const
const begun = () =>
  Array.from({ length: 10 }, (_, nth) =>
    nth % 2 === 0
      ? ({ role: 'user', id: `u${nth}`, content: 'What is the weather in Lusaka?' } as const)
      : ({ role: 'assistant', id: `a${nth}`, content: 'It is warm and dry today.' } as const),
  )
const earlier = begun()

const request = (isNew: boolean): ModelRequest => {
  const last = { role: 'user', id: 'last', content: 'And tomorrow?' } as const
  return {
    messages: [system, ...(isNew ? begun() : earlier), last],
    tools,
    signal: new AbortController().signal,
  }
}

async function ask(model: Model, { way, isNew }: ChatOrder): Promise<void> {
  let words = 0
  const asked = request(isNew)
  if (way === 'streamTo')
    await model.streamTo?.(asked, ({ type }) => void (words += type === 'text' ? 1 : 0))
  else for await (const { type } of model.stream(asked)) if (type === 'text') words++
  if (words === 0) throw new Error('The model said nothing.')
}

const model = await openModel()
process.on('message', async (order: ChatOrder) => {
  const { times } = order
  const before = process.cpuUsage()
  const one = async () => {
    for (let nth = 0; nth < times / atOnce; nth++) await ask(model, order)
  }
  await Promise.all(Array.from({ length: atOnce }, one))
  process.send?.(process.cpuUsage(before).user / times)
})
process.once('disconnect', () => process.exit())
process.send?.('ready')
