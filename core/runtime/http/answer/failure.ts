import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import type { Log, ToldError } from '../../../plugin.ts'
import { mayRepeat } from '../../base/log.ts'
import { isGateCode } from '../../base/plugin-record.ts'
import { type Answer, jsonType, send } from './answer.ts'
import { errorText, statusOf, toRuntimeError } from './error-body.ts'

const away = 'DATABASE_UNREACHABLE'
/** When to ask a server again whose database is away: one that was restarted is back within a second or two. */
const awayHeaders = { 'Retry-After': '2' }

/** Makes an answer, and a line of the log where one is due, of everything that is thrown at the edge. */
export class Failures {
  readonly #log: Log
  readonly #isUnreachable: (error: unknown) => boolean

  /** `isUnreachable` says whether an error means that the database is away. */
  constructor(log: Log, isUnreachable: (error: unknown) => boolean) {
    this.#log = log
    this.#isUnreachable = isUnreachable
  }

  /** Any thrown value as an error that may be shown. */
  toError(thrown: unknown): RuntimeError {
    return toRuntimeError(thrown, this.#isUnreachable)
  }

  /** Any thrown value as an error that may be shown. A fault of the server is logged with its cause. */
  explain({ method, state }: Context, thrown: unknown): RuntimeError {
    const error = this.toError(thrown)
    const { cause = error, code } = error
    const { requestId, route, plugin } = state
    const fields = { err: cause, code, method, requestId, route, plugin }
    state.code = code
    // Clients ask again and again while a plugin is not there, and the log has said why it is not.
    if (isGateCode(code)) this.#log.debug({ ...fields, err: undefined }, error.message)
    // 501 says that the operator has switched something off, so the log need not say it.
    else if (error.status === 500) this.#log.error(fields, 'a request failed')
    else if (error.status > 501) {
      const repeated = { of: `${code} ${route}`, whom: state.caller ?? state.who }
      this.#log.warn({ ...fields, [mayRepeat]: repeated }, 'a request could not be served')
    }
    return error
  }

  /** Answers with an error, unless an answer is under way; then the connection is cut. */
  answer(koa: Context, thrown: unknown): void {
    const { res, socket, state } = koa
    if ((res.destroyed || socket.destroyed) && isDeparture(thrown)) {
      koa.respond = false
      return this.#log.debug({ err: thrown, requestId: state.requestId }, 'the client left')
    }
    const error = this.explain(koa, thrown)
    if (res.destroyed || res.headersSent) {
      koa.respond = false
      // An answer that was begun must not look complete.
      if (!res.writableEnded) res.destroy()
      return
    }
    for (const name of res.getHeaderNames()) if (!outlives(name)) res.removeHeader(name)
    send(koa, this.toAnswer(koa, error))
  }

  /** An error as an answer: in the words of the protocol that is spoken at the address, where one is. */
  toAnswer(koa: Context, error: RuntimeError): Answer {
    // A handler may have set another id of the request, as the routes of a run do with the id of its turn.
    const requestId = String(koa.res.getHeader('X-Request-Id'))
    const { code, message, hint, details } = error
    const headers = error.headers ?? (code === away ? awayHeaders : undefined)
    const status = statusOf(error)
    const told = { status, code, message, hint, details, requestId }
    const body = this.#inOwnWords(koa, told) ?? errorText(error, requestId)
    return { status, type: jsonType, body, headers }
  }

  /** The body that the owner of the address makes of an error; undefined where nobody makes one. */
  #inOwnWords({ state }: Context, told: ToldError): string | undefined {
    const render: unknown = state.rendersErrors
    if (typeof render !== 'function') return undefined
    try {
      return JSON.stringify(render(told))
    } catch (err) {
      this.#log.error({ err, code: told.code }, 'an error could not be told in its own words')
      return undefined
    }
  }
}

const departures = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

/** Whether an error only says that the other side is gone. */
function isDeparture(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false
  return thrown.name === 'AbortError' || ('code' in thrown && departures.has(String(thrown.code)))
}

/** Whether a header of an answer that failed belongs to the error's answer too. */
function outlives(name: string): boolean {
  return (
    name === 'x-request-id' ||
    name === 'x-content-type-options' ||
    name === 'vary' ||
    name.startsWith('access-control-')
  )
}
