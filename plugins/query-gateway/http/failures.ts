import type { Context } from 'koa'
import type { Log } from '#core'
import { bundledRegistry } from '../descriptors/descriptors.ts'
import { connectCode } from '../connect/errors.ts'
import type { Dialect } from '../json/writer.ts'
import type { Operations } from '../operations/operations.ts'
import { grpc } from '../statuses.ts'
import { answer } from './answer.ts'
import { createErrorBody, type ErrorAnswer, type ErrorForm } from './error-body.ts'

/** When the upstream is away, every query fails; the log has one line in this time. */
const complaintMs = 1000

/** What `Failures` needs to answer and log failures. */
export interface FailuresOptions {
  readonly upstreams: readonly string[]
  readonly dialect: Dialect
  readonly log: Log
}

/** Answers clients for failures, and logs the failures of the upstream and of this server. */
export class Failures {
  readonly #errorBody: ReturnType<typeof createErrorBody>
  readonly #dialect: Dialect
  readonly #log: Log
  /** How many queries failed since the last line in the log, by status. */
  readonly #silent = new Map<number, number>()

  constructor({ upstreams, dialect, log }: FailuresOptions) {
    this.#errorBody = createErrorBody(upstreams)
    this.#dialect = dialect
    this.#log = log
  }

  /** Answers a request with a failure, or ends a connection whose answer has begun. */
  answer(koa: Context, thrown: unknown, operations?: Operations, form?: ErrorForm): void {
    if (koa.res.headersSent) {
      koa.res.destroy()
      return
    }
    const { status, headers, body } = this.explain(thrown, operations, form)
    answer(koa, status, { 'Cache-Control': 'no-store', ...headers }, body)
  }

  /** The answer to a failure, which this method also logs because every caller sends the answer to a client. */
  explain(thrown: unknown, operations?: Operations, form: ErrorForm = this.#dialect): ErrorAnswer {
    const known = this.#errorBody(thrown, operations?.registry ?? bundledRegistry, form)
    if (known) {
      if (known.status >= 500 && known.status !== 501) this.#complain(known.status, thrown)
      return known
    }
    this.#log.error({ err: thrown }, 'a query failed by a fault of this server')
    return {
      status: 500,
      headers: {},
      body: JSON.stringify({
        code: form === 'connect' ? connectCode(grpc.internal) : grpc.internal,
        message: 'A fault on our side.',
        details: [],
      }),
    }
  }

  /** Logs a failure at most once a second, and logs how many more failures came within that second. */
  #complain(status: number, thrown: unknown): void {
    const more = this.#silent.get(status)
    if (more !== undefined) return void this.#silent.set(status, more + 1)
    this.#silent.set(status, 0)
    this.#log.warn({ err: thrown }, `a query failed with ${status}`)
    setTimeout(() => {
      const unsaid = this.#silent.get(status) ?? 0
      this.#silent.delete(status)
      if (unsaid > 0) this.#log.warn(`${unsaid} more failed with ${status} within a second`)
    }, complaintMs).unref()
  }
}
