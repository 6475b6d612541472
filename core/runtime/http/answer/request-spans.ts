import type { Context } from 'koa'
import { attributes as a } from '../../telemetry/conventions.ts'
import { readTraceparent, type TraceSpan, type Tracer } from '../../telemetry/span.ts'

/** What the edge notes about a request in `koa.state` on its way. */
interface Noted {
  readonly requestId?: string
  readonly route?: string
  readonly plugin?: string
  readonly isProbe?: boolean
  readonly who?: string
}

/** The span of a request, made when it is first asked for: only then it is known who calls. */
class LazySpan {
  readonly #tracer: Tracer
  readonly #startedAt = Date.now()
  #span: TraceSpan | undefined

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  of(koa: Context): TraceSpan {
    this.#span ??= this.#tracer.begin({
      name: koa.method,
      kind: 'server',
      startedAt: this.#startedAt,
      attributes: { [a.method]: koa.method, [a.scheme]: koa.protocol },
      ...origin(koa),
    })
    return this.#span
  }
}

const spans = new WeakMap<Context, LazySpan>()

/** The span of a request; undefined where nobody collects spans. Whoever asks has proven who calls. */
export const requestSpan = (koa: Context): TraceSpan | undefined => spans.get(koa)?.of(koa)

/** The spans of requests. */
export class RequestSpans {
  readonly #tracer: Tracer

  constructor(tracer: Tracer) {
    this.#tracer = tracer
  }

  begin(koa: Context): void {
    spans.set(koa, new LazySpan(this.#tracer))
  }

  end(koa: Context, status: number): void {
    const { requestId, route, plugin, isProbe }: Noted = koa.state
    const span = isProbe ? undefined : requestSpan(koa)
    if (!span) return
    const path = route?.replace(/^[A-Z]+ /, '')
    const said = { [a.route]: path, [a.status]: status, [a.plugin]: plugin, [a.request]: requestId }
    span.tell(said, path === undefined ? koa.method : `${koa.method} ${path}`)
    span.end(status >= 500 ? String(status) : undefined)
  }
}

/**
 * Where a request comes from, as its `traceparent` says. The holder of a key is believed, and the trace goes on; of anybody
 * else the span only names it, for strangers must not write into the traces of others.
 */
function origin(koa: Context): { readonly parent?: string; readonly links?: readonly string[] } {
  const { traceparent } = koa.req.headers
  if (typeof traceparent !== 'string' || !readTraceparent(traceparent)) return {}
  const { who = '' }: Noted = koa.state
  const hasKey = who.startsWith('key:') || who === 'operator:loopback'
  return hasKey ? { parent: traceparent } : { links: [traceparent] }
}
