import { createServer, type ServerResponse } from 'node:http'
import { onTestFinished } from 'vitest'

/** A span as it came over the wire. */
export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  /** 1 internal, 2 server, 3 client, 5 consumer. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly isFault: boolean
  /** The service that sent the span. */
  readonly service: unknown
}

/** Takes spans over OTLP/HTTP with JSON, as a collector does. `answer` may answer otherwise than with 200. */
export async function otlpReceiver(
  answer = (res: ServerResponse): unknown => res.writeHead(200).end('{}'),
) {
  const spans: ReceivedSpan[] = []
  let requests = 0
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      requests++
      if (req.url === '/v1/traces')
        spans.push(...readSpans(JSON.parse(Buffer.concat(chunks).toString())))
      answer(res)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${port}`, spans, requests: () => requests }
}

interface Value {
  readonly stringValue?: string
  readonly intValue?: string | number
  readonly doubleValue?: number
  readonly boolValue?: boolean
  readonly arrayValue?: { readonly values: readonly Value[] }
}

interface Attribute {
  readonly key: string
  readonly value: Value
}

function valueOf({ stringValue, intValue, doubleValue, boolValue, arrayValue }: Value): unknown {
  if (arrayValue) return arrayValue.values.map(valueOf)
  return stringValue ?? (intValue === undefined ? (doubleValue ?? boolValue) : Number(intValue))
}

const record = (attributes: readonly Attribute[] = []) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]))

function readSpans({ resourceSpans = [] }: any): ReceivedSpan[] {
  // any: the JSON of a protocol that the test reads a part of
  return resourceSpans.flatMap(({ resource, scopeSpans }: any) =>
    scopeSpans.flatMap(({ spans }: any) =>
      spans.map((span: any) => ({
        ...span,
        parentSpanId: span.parentSpanId || undefined,
        links: span.links ?? [],
        attributes: record(span.attributes),
        isFault: span.status?.code === 2,
        service: record(resource.attributes)['service.name'],
      })),
    ),
  )
}
