import { errorOf, OracleError, toOracleError } from './error.ts'
import type { Tokens } from './tokens.ts'

/** How long an answer that is not a stream may take. */
const answerMs = 30_000

/** A request whose body is JSON. */
export interface Call {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Sends a request without a token. Throws the error that an answer of 400 and above stands for. */
export async function ask(url: string, call: Call = {}): Promise<Response> {
  const { body, headers, method = body === undefined ? 'GET' : 'POST', signal } = call
  let response: Response
  try {
    response = await fetch(url, {
      method,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      body: JSON.stringify(body),
      signal,
    })
  } catch (thrown) {
    throw toOracleError(thrown)
  }
  if (!response.ok) throw await errorOf(response)
  return response
}

/** Sends a request with the user's tokens. When the oracle refuses the tokens, makes new ones once and sends again. */
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

/** The JSON of an answer, which has to come within 30 seconds. */
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

/** An address without the slash at its end, so that a path can follow. */
export const trimmed = (url: string) => url.replace(/\/+$/, '')
