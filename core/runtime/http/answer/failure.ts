import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import type { Log } from '../../../plugin.ts'
import { jsonType, send } from './answer.ts'
import { errorText, statusOf, toRuntimeError } from './error-body.ts'

/** What becomes of everything that is thrown at the edge. */
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

  /** The same, and a fault of ours is logged with its cause. */
  explain({ method, state }: Context, thrown: unknown): RuntimeError {
    const error = this.toError(thrown)
    const { cause = error, code } = error
    const fields = { err: cause, code, method, requestId: state.requestId }
    // 501 says that something is switched off, which whoever switched it off knows.
    if (error.status === 500) this.#log.error(fields, 'a request failed')
    else if (error.status > 501) this.#log.warn(fields, 'a request could not be served')
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
      // What was begun must not look complete.
      if (!res.writableEnded) res.destroy()
      return
    }
    for (const name of res.getHeaderNames()) if (!outlives(name)) res.removeHeader(name)
    // A handler may have named the request anew, as a turn does that is asked for by its id.
    const body = errorText(error, String(res.getHeader('X-Request-Id')))
    send(koa, { status: statusOf(error), type: jsonType, body, headers: error.headers })
  }
}

const departures = new Set(['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT'])

/** Whether an error only says that the other side is gone. */
function isDeparture(thrown: unknown): boolean {
  if (!(thrown instanceof Error)) return false
  return thrown.name === 'AbortError' || ('code' in thrown && departures.has(String(thrown.code)))
}

/** Which headers of an answer that came to nothing belong to its error too. */
function outlives(name: string): boolean {
  return (
    name === 'x-request-id' ||
    name === 'x-content-type-options' ||
    name === 'vary' ||
    name.startsWith('access-control-')
  )
}
