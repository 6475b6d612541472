import {
  type Database,
  type Log,
  type Oracle,
  type OutsideTool,
  type OutsideTools,
  reply,
  type RouteContext,
  type Turns,
  type User,
} from '#core'
import { Claims } from './claims.ts'
import { Consents } from './consent.ts'
import { askName, callsTools, mayCall, wantedPlugins } from './offered.ts'
import { demandOwnHost, type OwnHosts } from './own-host.ts'
import { type Disagreement, disagreementOf } from './param-headers.ts'
import type { Protocol } from './protocol.ts'

const longestName = 200
const revisionKey = 'io.modelcontextprotocol/protocolVersion'
const headerMismatch = -32020

/** What the door needs of the app. */
export interface DoorParts {
  readonly tools: OutsideTools
  readonly turns: Turns
  readonly oracle: Oracle
  readonly db: Database
  readonly log: Log
  now(): Date
  readonly version: string
  readonly origins: ReadonlySet<string>
}

/** A request at the door, from the route. */
type Knock = Pick<RouteContext, 'koa' | 'requestId' | 'signal'> & { readonly user: User }

/** `POST /mcp`: checks where a request was sent to and what its key opens, and then speaks the protocol. */
export class Door {
  readonly #parts: DoorParts
  readonly #own: OwnHosts
  #opening: Promise<Protocol> | undefined

  constructor(parts: DoorParts) {
    this.#parts = parts
    const { url } = parts.oracle
    this.#own = { url, origins: parts.origins }
  }

  /** Answers one message of a client. */
  async answer(body: unknown, { koa, requestId, signal, user }: Knock): Promise<unknown> {
    const { req } = koa
    demandOwnHost(req, this.#own)
    if (Array.isArray(body))
      return refusal(400, null, -32600, 'Batches are not taken: send one message at a time.')
    const call = calledIn(body)
    // The package would say the name back, however long it is.
    if (call && String(call.name).length > longestName)
      return refusal(400, call.id, -32602, 'No tool has a name that long.')
    if (call && call.name !== askName && !callsTools(user)) return lacking(call.id)
    this.#opening ??= this.#open()
    const protocol = await this.#opening
    const headers = headersOf(req.headersDistinct)
    const tool = call && (await this.#toolOf(call, user))
    const wrong = tool && call.hasParamHeaders && disagreementOf(tool, call.args, headers)
    if (wrong) return disagreeing(call.id, wrong)
    const request = new Request('http://localhost/mcp', { method: 'POST', headers, signal })
    const { searchParams } = new URL(koa.url, 'http://localhost')
    const caller = { user, koa, requestId, plugins: wantedPlugins(searchParams), tool }
    return protocol.answer(request, body, caller)
  }

  async #toolOf({ name }: Called, user: User): Promise<OutsideTool | undefined> {
    if (typeof name !== 'string' || name === askName) return undefined
    const [tool] = await this.#parts.tools.list({ user, name })
    return tool
  }

  async close(): Promise<void> {
    await (await this.#opening)?.close()
  }

  /** Loads the package with the first request. */
  async #open(): Promise<Protocol> {
    const { openProtocol } = await import('./protocol.ts')
    const { tools, turns, oracle, db, log, version } = this.#parts
    const now = () => this.#parts.now().getTime()
    const consents = new Consents(oracle, new Claims(db, now), now)
    return openProtocol({ tools, turns, log, version, consents })
  }
}

/** The headers that the protocol reads: credentials stay outside of it. */
function headersOf(given: NodeJS.Dict<string[]>): Headers {
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(given))
    if (name === 'accept' || name === 'content-type' || name.startsWith('mcp-'))
      for (const value of values) headers.append(name, value)
  return headers
}

/** The call in a message. */
interface Called {
  readonly id: unknown
  readonly name: unknown
  readonly args: unknown
  /** The revisions before 2026-07-28 have no headers for parameters, and say their own nowhere in the message. */
  readonly hasParamHeaders: boolean
}

/** The call in a message, where it is one. */
function calledIn(body: unknown): Called | undefined {
  const { id, method, params }: Readonly<Record<string, unknown>> = Object(body)
  if (method !== 'tools/call') return undefined
  const { name, arguments: args, _meta }: Readonly<Record<string, unknown>> = Object(params)
  return { id, name, args, hasParamHeaders: revisionKey in Object(_meta) }
}

/** A refusal before the protocol is spoken, in its words. */
function refusal(
  status: number,
  id: unknown,
  code: number,
  message: string,
  more: { readonly data?: object; readonly headers?: Readonly<Record<string, string>> } = {},
) {
  const known = typeof id === 'string' || typeof id === 'number' ? id : null
  const { data, headers = {} } = more
  const error = { code, message, ...(data && { data }) }
  return reply(status, { jsonrpc: '2.0', error, id: known }, { headers })
}

const disagreeing = (id: unknown, { header, sentence }: Disagreement) =>
  refusal(400, id, headerMismatch, sentence, { data: { mismatch: { header, body: sentence } } })

const lacking = (id: unknown) =>
  refusal(403, id, -32003, `This caller lacks "${mayCall}", and may only call "${askName}".`, {
    data: {
      code: 'FORBIDDEN',
      hint: `Make a key with it: POST /keys { "can": ["oracle/call", "${mayCall}"] }, or delegate it.`,
    },
    headers: {
      'WWW-Authenticate': `Bearer realm="oracle", error="insufficient_scope", scope="${mayCall}"`,
    },
  })
