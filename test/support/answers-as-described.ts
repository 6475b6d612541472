import { subscribe } from 'node:diagnostics_channel'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { duplexPair } from 'node:stream'
import { afterAll } from 'vitest'

/** Every test file runs with this: what an app answers while its tests run must stand in its own /openapi.json. */
interface Finished {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly server: Server
}

/** A path of the document: how it is matched, and its operations. */
interface Described {
  readonly pattern: RegExp
  readonly path: string
  readonly item: Record<string, { responses: Record<string, { content?: object; $ref?: string }> }>
}

/** How many different answers of one server are looked at: a test of load asks for many paths. */
const mostAnswers = 5_000
const patienceMs = 10_000
const answered = new Map<Server, Set<string>>()

subscribe('http.server.response.finish', (message) => {
  const { request, response, server } = message as Finished
  // Only the runtime's own servers send this header. An answer to OPTIONS belongs to no route.
  if (!response.hasHeader('x-request-id') || request.method === 'OPTIONS') return
  let answers = answered.get(server)
  if (answers === undefined) answered.set(server, (answers = new Set()))
  if (answers.size >= mostAnswers) return
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '')
  const [path = ''] = (request.url ?? '').split('?')
  const type = String(response.getHeader('content-type') ?? '').split(';')[0]
  answers.add(`${method} ${path} ${response.statusCode} ${type}`)
})

afterAll(async () => {
  const unsaid: string[] = []
  for (const [server, answers] of answered) {
    const paths = await describedBy(server)
    if (paths.length > 0) for (const answer of answers) unsaid.push(...faultOf(answer, paths))
  }
  answered.clear()
  if (unsaid.length === 0) return
  const list = [...new Set(unsaid)].map((line) => `  ${line}`).join('\n')
  throw new Error(
    `/openapi.json does not list what was answered (give the route "answers"):\n${list}`,
  )
})

/** What the document does not say of an answer. A path that the document lacks belongs to a web module, or to nobody. */
export function faultOf(answer: string, paths: readonly Described[]): string[] {
  const [method = '', path = '', status = '', type = ''] = answer.split(' ')
  const found = paths.find(({ pattern, item }) => item[method.toLowerCase()] && pattern.test(path))
  const responses = found?.item[method.toLowerCase()]?.responses
  if (found === undefined || responses === undefined) return []
  // The document describes any error in the usual shape once, as the default.
  const said = responses[status] ?? (Number(status) >= 400 ? responses.default : undefined)
  const types = said?.$ref ? ['application/json'] : Object.keys(said?.content ?? {})
  const isListed = type === '' || types.includes(type) || types.includes('*/*')
  const isSaid = said !== undefined && isListed
  return isSaid ? [] : [`${method} ${found.path} answered ${status} ${type}`.trim()]
}

/** The paths of a server's document, those with the fewest parameters first; none where it has no document. */
async function describedBy(server: Server): Promise<Described[]> {
  const text = await ask(server)
  if (!/^HTTP\/1\.1 200 /.test(text)) return []
  // A test of the edge may answer something of its own there.
  const { paths = {} } = JSON.parse(text.slice(text.indexOf('\r\n\r\n') + 4)) as {
    paths?: Record<string, Described['item']>
  }
  const parameters = (path: string) => path.split('{').length
  return Object.entries(paths)
    .map(([path, item]) => ({ path, item, pattern: patternOf(path) }))
    .sort((a, b) => parameters(a.path) - parameters(b.path))
}

function patternOf(path: string): RegExp {
  const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return new RegExp(
    `^${path
      .split(/\{[^}]*\}/)
      .map(literal)
      .join('[^/]+')}$`,
  )
}

/** Asks over a connection in memory, for the server may have stopped to listen by now. */
function ask(server: Server): Promise<string> {
  const [near, far] = duplexPair()
  const { promise, resolve } = Promise.withResolvers<string>()
  let text = ''
  near.setEncoding('utf8').on('data', (piece: string) => (text += piece))
  const timer = setTimeout(() => near.destroy(), patienceMs)
  near.once('close', () => resolve(text)).on('error', () => undefined)
  near.once('end', () => near.destroy())
  server.emit('connection', far)
  // HTTP/1.0, so that the body comes in one piece and the connection ends.
  near.write('GET /openapi.json HTTP/1.0\r\nHost: a\r\n\r\n')
  return promise.finally(() => clearTimeout(timer))
}
