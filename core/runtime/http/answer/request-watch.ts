import type { Context } from 'koa'
import type { RuntimeError } from '../../../errors.ts'
import type { KernelMetrics } from '../../telemetry/kernel-metrics.ts'
import { RequestSpans } from './request-spans.ts'
import type { Tracer } from '../../telemetry/span.ts'
import { statusOf } from './error-body.ts'
import { isEventStream, type RequestLog } from './request-log.ts'

/** What watches requests: any of them may be absent. */
export interface RequestWatchParts {
  readonly log?: RequestLog
  readonly metrics?: KernelMetrics
  readonly tracer?: Tracer
}

/** What the edge notes about a request in `koa.state` on its way. */
interface Noted {
  readonly route?: string
  readonly plugin?: string
  readonly isProbe?: boolean
  readonly code?: string
}

/** The status of a request that nobody answered: its client went away, or the server had to stop. */
const unanswered = 499

/** What was said on the bare connection in the place of an answer. */
const saidInstead = new WeakMap<object, RuntimeError>()

/** Notes that a refusal goes out on the bare connection in the place of a response. */
export const refusedInstead = (res: object, refusal: RuntimeError): void =>
  void saidInstead.set(res, refusal)

/** The status that the client has got. */
function statusIn({ res, state }: Context): number {
  if (res.headersSent) return res.statusCode
  const refusal = saidInstead.get(res)
  if (!refusal) return unanswered
  state.code = refusal.code
  return statusOf(refusal)
}

/** Sees each request from its beginning to its end, for the log, for metrics and for traces. */
export class RequestWatch {
  readonly #log: RequestLog | undefined
  readonly #metrics: KernelMetrics | undefined
  readonly #spans: RequestSpans | undefined

  constructor({ log, metrics, tracer }: RequestWatchParts) {
    this.#log = log
    this.#metrics = metrics
    this.#spans = tracer && new RequestSpans(tracer)
  }

  /** Watches a request until its answer is out or its connection is gone. */
  begin(koa: Context): void {
    const { res, socket } = koa
    const begun = performance.now()
    this.#spans?.begin(koa)
    if (!this.#log) {
      res.on('close', () => this.#ended(koa, statusIn(koa), performance.now() - begun))
      return
    }
    const { bytesRead, bytesWritten } = socket
    res.on('close', () => {
      const said = Number(koa.req.headers['content-length'])
      const bytesIn = Number.isNaN(said) ? socket.bytesRead - bytesRead : said
      const bytesOut = socket.bytesWritten - bytesWritten
      this.#ended(koa, statusIn(koa), performance.now() - begun, { bytesIn, bytesOut })
    })
  }

  /** A client that asked for a socket has it now, or was refused. */
  upgraded(koa: Context, refusal?: RuntimeError): void {
    this.#ended(koa, refusal ? statusOf(refusal) : 101)
  }

  /** Bytes came that are no request. */
  unreadable(refusal: RuntimeError): void {
    this.#log?.unreadable(refusal)
    this.#metrics?.request({ method: 'other', status: statusOf(refusal), code: refusal.code })
  }

  #ended(koa: Context, status: number, ms?: number, bytes?: object): void {
    this.#log?.ended(koa, status, ms, bytes)
    const { route, plugin, code, isProbe }: Noted = koa.state
    this.#spans?.end(koa, status)
    // Probes come every few seconds from every side, and say nothing of the work of the server.
    if (isProbe && status < 400) return
    const timed = ms !== undefined && !isEventStream(koa) ? { ms } : {}
    this.#metrics?.request({ route, plugin, method: koa.method, status, code, ...timed })
  }
}
