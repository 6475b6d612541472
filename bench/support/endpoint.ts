import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * An OpenAI-compatible endpoint in a process of its own. The user's last message decides the answer: `weather` asks for
 * three tool calls, one after the other, and then sends twenty words; `load NAME` loads a capability if its tool is
 * missing; `talk COUNT MS` sends COUNT words, the first at once and then one every MS milliseconds.
 */

interface Heard {
  readonly messages: readonly { readonly role: string; readonly content: string }[]
  readonly tools?: readonly { readonly function: { readonly name: string } }[]
}

const chunk = (delta: object, finish_reason: string | null = null) => {
  const choices = [{ index: 0, delta, finish_reason }]
  const data = { id: 'x', object: 'chat.completion.chunk', created: 0, model: 'm', choices }
  return `data: ${JSON.stringify(data)}\n\n`
}
const done = 'data: [DONE]\n\n'
const opening = chunk({ role: 'assistant', content: '' })
const speech = [
  opening,
  ...Array.from({ length: 20 }, (_, i) => chunk({ content: ` word${i}` })),
  chunk({}, 'stop'),
  done,
]

function callOf(id: string, name: string, pieces: readonly string[]): string[] {
  const call = (piece: object) => chunk({ tool_calls: [{ index: 0, ...piece }] })
  return [
    opening,
    call({ id, type: 'function', function: { name, arguments: '' } }),
    ...pieces.map((piece) => call({ function: { arguments: piece } })),
    chunk({}, 'tool_calls'),
    done,
  ]
}

function answerTo({ messages, tools = [] }: Heard): readonly string[] {
  const asked = messages.findLastIndex(({ role }) => role === 'user')
  const results = messages.slice(asked).filter(({ role }) => role === 'tool').length
  const [what, plugin = ''] = messages[asked]!.content.split(' ')
  const weather = (nth: number) =>
    callOf(`call_${nth}`, 'get_weather', ['{"ci', 'ty":', '"Lus', 'aka', '"}'])
  if (what !== 'load') return results < 3 ? weather(results) : speech
  if (results === 0 && !tools.some((tool) => tool.function.name === 'get_weather'))
    return callOf('call_load', 'load_capability', [JSON.stringify({ names: [plugin] })])
  const last = messages.at(-1)!
  return last.role === 'tool' && last.content.includes('Lusaka') ? speech : weather(9)
}

async function talk(response: ServerResponse, count: number, ms: number): Promise<void> {
  const start = performance.now()
  for (let i = 0; i < count && !response.destroyed; i++) {
    const wait = start + i * ms - performance.now()
    if (wait > 0) await sleep(wait)
    response.write(chunk({ content: 'word ' }))
  }
  response.write(chunk({}, 'stop'))
}

let calls = 0
let bytesOfFirst = 0
const server = createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', async () => {
    const body = Buffer.concat(pieces)
    if (calls++ === 0) bytesOfFirst = body.length
    const heard = JSON.parse(body.toString()) as Heard
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const [what, count, ms] = heard.messages.at(-1)!.content.split(' ')
    if (what === 'talk') await talk(response, Number(count), Number(ms))
    else for (const piece of answerTo(heard)) response.write(piece)
    response.end(what === 'talk' ? done : '')
  })
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 2048 }, () =>
  process.send?.({ port: (server.address() as AddressInfo).port }),
)
// A message asks for the number of calls since the last such message, and for the size of the first of them.
process.on('message', () => {
  process.send?.({ calls, bytesOfFirst })
  calls = 0
})
process.once('disconnect', () => process.exit())
