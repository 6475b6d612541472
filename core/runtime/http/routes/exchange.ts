import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { AuditFacts, BodyLine, User } from '../../../plugin.ts'
import type { Trace } from '../../audit/trace.ts'
import type { BodyPrint } from '../read/body-print.ts'
import { readLines } from '../read/ndjson.ts'

/** What the edge knows of a request that may go on; the rest of a route's context is built on this. */
export interface RouteBase {
  readonly koa: Context
  readonly requestId: string
  readonly signal: AbortSignal
  readonly caller: string
  readonly user?: User | undefined
  readonly lines: AsyncIterable<BodyLine>
  readonly raw: Buffer
  readonly audit: (facts: AuditFacts) => void
}

/**
 * One request of one route. `signal` and `lines` come into being when they are first read, for most
 * handlers read neither: whoever builds on this must inherit or extend it, not spread it.
 */
export class Exchange implements RouteBase {
  readonly koa: Context
  readonly requestId: string
  readonly caller: string
  readonly user: User | undefined
  /** Gets the bytes of the lines, where a key makes the request repeatable. */
  print: BodyPrint | undefined
  /** What becomes the request's audit line, where lines are written. */
  readonly trace: Trace | undefined
  #maxLineBodyBytes: number | undefined
  #controller: AbortController | undefined
  #aborted: { reason: unknown } | undefined
  #lines: AsyncIterable<BodyLine> | undefined
  #raw: Buffer | undefined

  constructor(
    koa: Context,
    caller: string,
    user: User | undefined,
    ndjsonBytes?: number,
    trace?: Trace,
  ) {
    this.koa = koa
    this.requestId = koa.state.requestId
    this.caller = caller
    this.user = user
    this.#maxLineBodyBytes = ndjsonBytes
    this.trace = trace
  }

  /** A function without `this`, for handlers take it out of their context. */
  get audit(): (facts: AuditFacts) => void {
    return (facts) => this.trace?.add(facts)
  }

  /** Fires when the client is gone before its answer, and for a stream when the server closes. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = (this.#controller = new AbortController())
      const { res } = this.koa
      if (this.#aborted !== undefined) controller.abort(this.#aborted.reason)
      else if (res.destroyed) controller.abort()
      else
        res.once('close', () => {
          if (!res.writableFinished) controller.abort()
        })
    }
    return this.#controller.signal
  }

  get lines(): AsyncIterable<BodyLine> {
    this.#lines ??=
      this.#maxLineBodyBytes === undefined
        ? noLines()
        : readLines(this.koa.req, this.#maxLineBodyBytes, this.print)
    return this.#lines
  }

  /** The body's bytes, where the route keeps them. */
  get raw(): Buffer {
    if (this.#raw) return this.#raw
    throw new RuntimeError(
      'RAW_NOT_KEPT',
      'A handler reads ctx.raw, and its route keeps no bytes.',
      {
        hint: 'Add raw: true to the route.',
      },
    )
  }

  keepRaw(bytes: Buffer): void {
    this.#raw = bytes
  }

  abort(reason: unknown): void {
    this.#aborted = { reason }
    this.#controller?.abort(reason)
  }
}

async function* noLines(): AsyncGenerator<BodyLine> {
  throw new RuntimeError('INTERNAL', 'A route reads ctx.lines but does not declare its body.', {
    hint: `Add body: 'ndjson' to the route.`,
  })
}
