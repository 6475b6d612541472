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
      res.on('close', () => this.#ended(koa, res.statusCode, performance.now() - begun))
      return
    }
    const { bytesRead, bytesWritten } = socket
    res.on('close', () => {
      const said = Number(koa.req.headers['content-length'])
      const bytesIn = Number.isNaN(said) ? socket.bytesRead - bytesRead : said
      const bytesOut = socket.bytesWritten - bytesWritten
      this.#ended(koa, res.statusCode, performance.now() - begun, { bytesIn, bytesOut })
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
