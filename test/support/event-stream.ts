/** An event as a client sees it. */
export interface Seen {
  readonly id: number | undefined
  readonly event: string
  // any: a test states what it expects of the value, and fails when the value is another
  readonly data: any
}

/** A stream of events that a test reads one by one. */
export interface EventStream {
  readonly status: number
  readonly headers: Headers
  /** The whole body of an answer that is no stream, as JSON. */
  json(): Promise<any>
  /** The whole body of an answer that is no stream. */
  text(): Promise<string>
  /** The next event; undefined at the end. */
  next(): Promise<Seen | undefined>
  /** Reads on to the first such event; resolves to all events that were read. */
  until(isIt: (event: Seen) => boolean): Promise<Seen[]>
  /** Everything that is still to come. */
  rest(): Promise<Seen[]>
  /** Leaves, as a client does whose network is gone. */
  cut(): void
}

/** Asks for a stream of events, and resolves once its headers have come. */
export async function openStream(
  url: string,
  headers: Record<string, string>,
  body?: unknown,
): Promise<EventStream> {
  const leaving = new AbortController()
  const response = await fetch(url, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { ...headers, ...(body !== undefined && { 'Content-Type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: leaving.signal,
  })
  const events = response.body ? read(response.body) : undefined
  const next = async () => {
    const result = await events?.next()
    return result?.done ? undefined : result?.value
  }
  return {
    status: response.status,
    headers: response.headers,
    json: () => response.json(),
    text: () => response.text(),
    next,
    async until(isIt) {
      const seen: Seen[] = []
      for (;;) {
        const event = await next()
        if (!event) throw new Error(`The stream ended after ${JSON.stringify(seen)}`)
        seen.push(event)
        if (isIt(event)) return seen
      }
    },
    async rest() {
      const seen: Seen[] = []
      for (let event = await next(); event; event = await next()) seen.push(event)
      return seen
    },
    cut: () => leaving.abort(),
  }
}

/**
 * Reads a turn to its end, from one server after the other, as a client does: a server that leaves says so in its last event.
 * `open` asks for the events after a number.
 */
export async function readOn(
  open: (after: number) => Promise<EventStream>,
  events: Seen[],
): Promise<Seen[]> {
  for (let last = events.at(-1); last?.event !== 'done'; last = events.at(-1)) {
    if (last?.data.handover !== true)
      throw new Error(`The stream was cut off after ${JSON.stringify(last)}`)
    const stream = await open(events.findLast(({ id }) => id !== undefined)?.id ?? 0)
    if (stream.status !== 200) throw new Error(`${stream.status}: ${await stream.text()}`)
    const more = await stream.rest()
    if (more.length === 0) throw new Error('The stream goes on with nothing.')
    events.push(...more)
  }
  return events
}

/** The words as a client has them, which drops what a server that left had said and not kept. */
export function wordsOf(events: readonly Seen[]): string {
  let text = ''
  for (const { event, data } of events)
    if (event === 'message') text += data.content
    else if (event === 'run' && data.resumed) text = text.slice(0, data.partialLength)
  return text
}

async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<Seen> {
  let text = ''
  for await (const bytes of body.pipeThrough(new TextDecoderStream())) {
    text += bytes
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const frame = text.slice(0, end)
      text = text.slice(end + 2)
      const field = (name: string) =>
        frame
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2)
      const data = field('data')
      if (data === undefined) continue
      const id = field('id')
      yield {
        id: id === undefined ? undefined : Number(id),
        event: field('event') ?? 'message',
        data: JSON.parse(data),
      }
    }
  }
}
