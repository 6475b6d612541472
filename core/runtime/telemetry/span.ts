/** What a span says of itself: words and numbers of the code, and those of a user only where the operator has asked for them. */
export type Attributes = Readonly<
  Record<string, string | number | boolean | readonly string[] | undefined>
>

/** What kind of work a span is. */
export type SpanKind = 'server' | 'client' | 'internal' | 'consumer'

/** One piece of work, for whoever collects traces. */
export interface TraceSpan {
  /** How work elsewhere names this span as its parent. */
  readonly traceparent: string
  /** Names the span anew, and says more of it. */
  tell(attributes: Attributes, name?: string): void
  /** Ends the span. `fault` is a code, and never a sentence that may hold a user's words. */
  end(fault?: string): void
}

/** What a span begins with. */
export interface NewSpan {
  readonly name: string
  readonly kind: SpanKind
  /** The `traceparent` of the work that this is part of; without it a trace begins. */
  readonly parent?: string
  /** Spans of the same or other traces that have to do with this one. */
  readonly links?: readonly string[]
  readonly attributes?: Attributes
  /** When the work began, in milliseconds since 1970; by default now. */
  readonly startedAt?: number
}

/** Begins spans. There is one only where somebody collects traces. */
export interface Tracer {
  begin(span: NewSpan): TraceSpan
  /** Exports what has ended. */
  close(): Promise<void>
}

const traceparentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/
/** A version may add fields behind the flags; more of a header than this is not read. */
const longest = 256

/** What a `traceparent` header says, or undefined for one that is none, is all zeros or of the version that nobody may use. */
export function readTraceparent(
  header: unknown,
): { readonly traceId: string; readonly spanId: string; readonly flags: number } | undefined {
  if (typeof header !== 'string' || header.length > longest) return undefined
  const version = header.slice(0, 2)
  const own = version === '00' ? header : header.slice(0, 55)
  if (own !== header && header[55] !== '-') return undefined
  const [, , traceId = '', spanId = '', flags = ''] = traceparentForm.exec(own) ?? []
  if (version === 'ff' || traceId === '' || /^0+$/.test(traceId) || /^0+$/.test(spanId))
    return undefined
  return { traceId, spanId, flags: Number.parseInt(flags, 16) }
}
