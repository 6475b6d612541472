import { errorOf, OracleError, toOracleError } from './error.ts'
import type { Tokens } from './tokens.ts'

/** How long an answer in one piece may take. */
const answerMs = 30_000

/** A request with JSON in it. */
export interface Call {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Asks without saying who asks. Any answer that is not good is thrown. */
export async function ask(url: string, call: Call = {}): Promise<Response> {
  const { body, headers, method = body === undefined ? 'GET' : 'POST', signal } = call
  let response: Response
  try {
    response = await fetch(url, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    })
  } catch (thrown) {
    throw toOracleError(thrown)
  }
  if (!response.ok) throw await errorOf(response)
  return response
}

/** Asks an oracle as its user. A refused token is replaced once, and the request repeated once. */
export async function askAs(
  tokens: Tokens,
  oracleDid: string,
  url: string,
  call: Call = {},
): Promise<Response> {
  for (let tries = 0; ; tries++) {
    const credentials = await tokens.headers(oracleDid)
    try {
      return await ask(url, { ...call, headers: { ...call.headers, ...credentials } })
    } catch (error) {
      if (!(error instanceof OracleError) || error.status !== 401 || tries > 0) throw error
      tokens.drop(oracleDid, credentials)
    }
  }
}

/** The JSON of an answer, within bounded time. */
export async function readJson<T>(call: Call, send: (call: Call) => Promise<Response>): Promise<T> {
  const timeout = AbortSignal.timeout(answerMs)
  const signal = call.signal ? AbortSignal.any([call.signal, timeout]) : timeout
  try {
    const response = await send({ ...call, signal })
    return (await response.json()) as T
  } catch (thrown) {
    throw toOracleError(thrown)
  }
}

/** An address to which a path can be added. */
export const trimmed = (url: string) => url.replace(/\/+$/, '')
