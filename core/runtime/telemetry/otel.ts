import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type * as Api from '@opentelemetry/api'
import type { EnvSource } from '../../manifest/env.ts'
import type { Log } from '../../plugin.ts'
import { runtimeVersion } from '../base/version.ts'
import { Delivery } from './delivery.ts'
import type { KernelMetrics } from './kernel-metrics.ts'
import {
  type Attributes,
  type NewSpan,
  readTraceparent,
  type TraceSpan,
  type SpanKind,
  type Tracer,
} from './span.ts'

/** The packages that export spans; an app that sets the endpoint brings them. */
const packages = [
  '@opentelemetry/sdk-trace-node',
  '@opentelemetry/exporter-trace-otlp-http',
] as const
/** How long the spans that wait may take when the server stops. */
const closeMs = 3_000

/** What decides whether there are spans, and where they go. */
export interface TracerOptions {
  readonly source: EnvSource
  readonly log: Log
  readonly metrics: KernelMetrics
  /** What the service is called, where OTEL_SERVICE_NAME does not say it. */
  readonly name: string
}

/**
 * Opens what begins spans: where an SDK of OpenTelemetry has registered itself in this process, or an endpoint is set.
 * Anywhere else nothing of OpenTelemetry is imported.
 */
export async function openTracer(options: TracerOptions): Promise<Tracer | undefined> {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = options.source
  if (disabled === 'true') return undefined
  if (isRegistered()) {
    const api = await import('@opentelemetry/api')
    return new OtelTracer(api, api.trace.getTracer('oracle-runtime', runtimeVersion))
  }
  const url = endpointOf(options.source)
  return url === undefined || exporter === 'none' ? undefined : exportingTracer(options, url)
}

/** Whether an SDK has registered where spans go, by the symbol that all versions of the API share. */
function isRegistered(): boolean {
  const registered: unknown = Reflect.get(globalThis, Symbol.for('opentelemetry.js.api.1'))
  return typeof registered === 'object' && registered !== null && 'trace' in registered
}

function endpointOf(source: EnvSource): string | undefined {
  const own = source.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
  if (own) return own
  const base = source.OTEL_EXPORTER_OTLP_ENDPOINT
  return base ? `${base.replace(/\/+$/, '')}/v1/traces` : undefined
}

/** Spans by the SDK that the app has installed; undefined, with a warning, where it has not. */
async function exportingTracer(
  { source, log, metrics, name }: TracerOptions,
  url: string,
): Promise<Tracer | undefined> {
  const api = await import('@opentelemetry/api')
  try {
    const [sdk, otlp] = await Promise.all([
      fromApp<typeof import('@opentelemetry/sdk-trace-node')>(packages[0]),
      fromApp<typeof import('@opentelemetry/exporter-trace-otlp-http')>(packages[1]),
    ])
    const exporter = new otlp.OTLPTraceExporter({ url, headers: headersOf(source) })
    const origin = new URL(url).origin
    const delivery = new Delivery(log, origin)
    const counted: typeof exporter = Object.create(exporter, {
      export: {
        value(
          spans: Parameters<typeof exporter.export>[0],
          done: Parameters<typeof exporter.export>[1],
        ) {
          exporter.export(spans, (result) => {
            delivery.ended(spans.length, result.code === 0, result.error)
            metrics.spans(result.code === 0 ? 'exported' : 'lost', spans.length)
            done(result)
          })
        },
      },
    })
    const batches = new sdk.BatchSpanProcessor(counted)
    const counting = {
      onStart: () => undefined,
      onEnd: () => metrics.spans('ended', 1),
      forceFlush: async () => undefined,
      shutdown: async () => undefined,
    }
    const resource = await resourceOf(source, name)
    const provider = new sdk.NodeTracerProvider({
      ...(resource && { resource }),
      spanProcessors: [counting, batches],
    })
    log.info(`traces go to ${origin}`)
    const tracer = provider.getTracer('oracle-runtime', runtimeVersion)
    return new OtelTracer(api, tracer, () => provider.shutdown())
  } catch (err) {
    const isMissing =
      err instanceof Error && 'code' in err && /MODULE_NOT_FOUND/.test(String(err.code))
    if (isMissing)
      log.warn(
        `OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent: npm install ${packages.join(' ')}`,
      )
    else log.warn({ err }, 'OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans can be sent')
    return undefined
  }
}

/** Who sends the spans. The package is one that the SDK itself needs. */
async function resourceOf(source: EnvSource, name: string) {
  const { resourceFromAttributes, defaultResource } = await fromApp<
    typeof import('@opentelemetry/resources')
  >('@opentelemetry/resources')
  const own: Record<string, string> = {}
  for (const pair of (source.OTEL_RESOURCE_ATTRIBUTES ?? '').split(',').slice(0, 100)) {
    const [key = '', value] = pair.split('=')
    if (key.trim() && value !== undefined) own[key.trim()] = decoded(value.trim())
  }
  own['service.name'] = source.OTEL_SERVICE_NAME || own['service.name'] || name
  return defaultResource().merge(resourceFromAttributes(own))
}

/** `OTEL_EXPORTER_OTLP_HEADERS`: names and percent-encoded values, with commas between. */
function headersOf(source: EnvSource): Record<string, string> {
  const headers: Record<string, string> = {}
  const text = source.OTEL_EXPORTER_OTLP_TRACES_HEADERS ?? source.OTEL_EXPORTER_OTLP_HEADERS ?? ''
  for (const pair of text.split(',')) {
    const cut = pair.indexOf('=')
    if (cut > 0) headers[pair.slice(0, cut).trim()] = decoded(pair.slice(cut + 1).trim())
  }
  return headers
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A package of the app: as Node finds it from here, or from the folder in which the app runs. */
async function fromApp<T>(name: string): Promise<T> {
  const { resolve } = createRequire(import.meta.url)
  let path: string
  try {
    path = resolve(name)
  } catch {
    path = createRequire(join(process.cwd(), 'package.json')).resolve(name)
  }
  const module: T & { readonly default?: T } = await import(pathToFileURL(path).href)
  return module.default ?? module
}

/** Spans by the API of OpenTelemetry. */
class OtelTracer implements Tracer {
  readonly #api: typeof Api
  readonly #tracer: Api.Tracer
  readonly #shutdown: (() => Promise<void>) | undefined

  constructor(api: typeof Api, tracer: Api.Tracer, shutdown?: () => Promise<void>) {
    this.#api = api
    this.#tracer = tracer
    this.#shutdown = shutdown
  }

  begin({ name, kind, parent, links = [], attributes = {}, startedAt }: NewSpan): TraceSpan {
    const { ROOT_CONTEXT, trace } = this.#api
    const above = contextOf(parent)
    const linked = links.flatMap((link) => contextOf(link) ?? [])
    const span = this.#tracer.startSpan(
      name,
      {
        kind: this.#kindOf(kind),
        attributes: known(attributes),
        links: linked.map((context) => ({ context })),
        ...(startedAt !== undefined && { startTime: startedAt }),
      },
      above ? trace.setSpanContext(ROOT_CONTEXT, above) : ROOT_CONTEXT,
    )
    return new OtelSpan(this.#api, span)
  }

  async close(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, closeMs)))
    await Promise.race([this.#shutdown?.().catch(() => undefined), late])
    clearTimeout(timer)
  }

  #kindOf(kind: SpanKind): Api.SpanKind {
    const { SpanKind: kinds } = this.#api
    return {
      server: kinds.SERVER,
      client: kinds.CLIENT,
      internal: kinds.INTERNAL,
      consumer: kinds.CONSUMER,
    }[kind]
  }
}

class OtelSpan implements TraceSpan {
  readonly #api: typeof Api
  readonly #span: Api.Span

  constructor(api: typeof Api, span: Api.Span) {
    this.#api = api
    this.#span = span
  }

  get traceparent(): string {
    const { traceId, spanId, traceFlags } = this.#span.spanContext()
    return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
  }

  tell(attributes: Attributes, name?: string): void {
    this.#span.setAttributes(known(attributes))
    if (name !== undefined) this.#span.updateName(name)
  }

  end(fault?: string): void {
    if (fault !== undefined) {
      this.#span.setAttribute('error.type', fault)
      this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR })
    }
    this.#span.end()
  }
}

function contextOf(traceparent: string | undefined): Api.SpanContext | undefined {
  const read = readTraceparent(traceparent)
  return (
    read && { traceId: read.traceId, spanId: read.spanId, traceFlags: read.flags, isRemote: true }
  )
}

function known(attributes: Attributes): Api.Attributes {
  const said = Object.entries(attributes).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, typeof value === 'object' ? [...value] : value] as const],
  )
  return Object.fromEntries(said)
}
