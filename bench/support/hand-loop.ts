import http, { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The hand-written server: node:http on both sides, the history in a Map, a frame for every word. The server has no
 * users, stores nothing, and cannot resume a stream. With a second argument its turns pass through LangGraph, with a third
 * one, a file of SQLite or the address of a PostgreSQL, sessions and turns also leave their rows there.
 */

interface Said {
  role: string
  content: string
  tool_calls?: { id: string; type: string; function: { name: string; arguments: string } }[]
}

const [, , endpoint, through, place] = process.argv
const port = Number(endpoint)
const floor = through ? await (await import('./floor.ts')).Floor.over(place) : undefined
const agent = new http.Agent({ keepAlive: true })
const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [
  {
    type: 'function',
    function: { name: 'get_weather', description: 'Weather in a city.', parameters },
  },
]
const sessions = new Map<string, object[]>()

function ask(messages: object[], onWord: (word: string) => void): Promise<Said> {
  return new Promise((resolve, reject) => {
    const body = JSON.stringify({ model: 'm', stream: true, messages, tools })
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    }
    const options = { host: '127.0.0.1', port, path: '/v1/chat/completions', method: 'POST' }
    const request = http.request({ ...options, agent, headers }, (response) => {
      let rest = ''
      let content = ''
      const calls: NonNullable<Said['tool_calls']> = []
      response.setEncoding('utf8').on('data', (piece: string) => {
        rest += piece
        for (let at; (at = rest.indexOf('\n\n')) >= 0; rest = rest.slice(at + 2)) {
          const line = rest.slice(6, at)
          if (line === '[DONE]') continue
          const { delta } = JSON.parse(line).choices[0]
          if (delta.content) {
            content += delta.content
            onWord(delta.content)
          }
          for (const { index, id, function: part } of delta.tool_calls ?? []) {
            const call = (calls[index] ??= {
              id: '',
              type: 'function',
              function: { name: '', arguments: '' },
            })
            if (id) call.id = id
            if (part.name) call.function.name = part.name
            call.function.arguments += part.arguments
          }
        }
      })
      response.on('end', () =>
        resolve({ role: 'assistant', content, ...(calls.length > 0 && { tool_calls: calls }) }),
      )
    })
    request.on('error', reject).end(body)
  })
}

async function turn(session: string, message: string, response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  let id = 0
  const frame = (event: string, data: object) =>
    response.write(`id: ${++id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
  let history = sessions.get(session)
  if (!history) sessions.set(session, (history = []))
  history.push({ role: 'user', content: message })
  const answer = () => goRound(history, frame)
  await (floor ? floor.turn(session, answer) : answer())
  frame('done', {})
  response.end()
}

/** Asks the model and carries out its calls until it calls nothing more. */
async function goRound(
  history: object[],
  frame: (event: string, data: object) => void,
): Promise<void> {
  for (;;) {
    const reply = await ask(history, (content) => frame('message', { content }))
    history.push(reply)
    if (!reply.tool_calls) return
    for (const { id, function: call } of reply.tool_calls) {
      const args = JSON.parse(call.arguments)
      frame('tool_call', { id, name: call.name, args, status: 'isRunning' })
      const output = JSON.stringify({ city: args.city, temp_c: 21 })
      frame('tool_call', { id, name: call.name, args, status: 'done', output })
      history.push({ role: 'tool', tool_call_id: id, content: output })
    }
  }
}

const server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (piece: string) => (body += piece))
  request.on('end', async () => {
    if (request.url === '/sessions')
      return response
        .writeHead(201, { 'content-type': 'application/json' })
        .end(JSON.stringify({ sessionId: (await floor?.session()) ?? randomUUID() }))
    await turn(request.url!, JSON.parse(body).message, response)
  })
})
server.listen({ port: 0, host: '127.0.0.1', backlog: 2048 }, () =>
  process.send?.({ port: (server.address() as AddressInfo).port }),
)
process.on('message', async (what) => {
  if (what === 'gc') {
    await sleep(50)
    globalThis.gc?.()
  }
  const { user, system } = process.cpuUsage()
  const { heapUsed, external, rss } = process.memoryUsage()
  process.send?.({ cpu: user + system, user, heap: heapUsed + external, rss })
})
process.once('disconnect', () => process.exit())
