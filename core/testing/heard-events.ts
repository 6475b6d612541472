import { createParser } from 'eventsource-parser'
import type { StreamedEvent } from './turn.ts'

/** One event of what goes on in all sessions of a user. */
export interface HeardEvent extends Omit<StreamedEvent, 'id'> {
  /** The number of a notice, from which another reader can go on. */
  readonly id?: number
}

/** Where a test begins to hear a user's events. */
export interface HearOptions {
  /** The number of the last notice that was heard, which a client sends when it connects again; by default only new events come. */
  readonly after?: number
}

/** The events of `GET /events`, as a page of the user reads them, until the test leaves the stream or the app ends. */
export class HeardEvents implements AsyncIterable<HeardEvent>, AsyncDisposable {
  readonly #leaving: AbortController
  readonly #events: AsyncGenerator<HeardEvent, void, void>

  /** Reads an answer that `leaving` ends. */
  constructor(answer: Response, leaving: AbortController) {
    this.#leaving = leaving
    this.#events = eventsIn(answer)
  }

  /**
   * The next event, or the next of this name, for which others are passed over; waits for one where there is none yet.
   * Rejects when the stream ends before.
   */
  async next(event?: string): Promise<HeardEvent> {
    const passed: string[] = []
    for (;;) {
      const { value: heard } = await this.#events.next()
      if (!heard) throw new Error(ended(event, passed))
      if (event === undefined || heard.event === event) return heard
      passed.push(heard.event)
    }
  }

  /** Every event from here on, up to the end of the stream. Leaving the loop leaves the stream. */
  async *[Symbol.asyncIterator](): AsyncGenerator<HeardEvent, void, void> {
    try {
      for await (const event of this.#events) yield event
    } finally {
      this.leave()
    }
  }

  /** Leaves the stream, as a page does that is closed. */
  leave(): void {
    this.#leaving.abort()
  }

  /** Leaves; `await using` does so at the end of the test. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.leave()
  }
}

/** Opens `GET /events`; resolves once the server tells this reader what happens, so that nothing after it is missed. */
export async function hearEvents(
  url: string,
  headers: Readonly<Record<string, string>>,
  { after }: HearOptions = {},
): Promise<HeardEvents> {
  const leaving = new AbortController()
  const answer = await fetch(`${url}/events`, {
    headers: { ...headers, ...(after !== undefined && { 'last-event-id': String(after) }) },
    signal: leaving.signal,
  })
  if (answer.ok) {
    const events = new HeardEvents(answer, leaving)
    // From this event on the server knows which notices are new to this reader.
    await events.next('connected')
    return events
  }
  throw new Error(`/events answered ${answer.status}: ${await answer.text()}`)
}

/** The events of an answer. A connection that breaks, or that the test leaves, is its end. */
async function* eventsIn({ body }: Response): AsyncGenerator<HeardEvent, void, void> {
  const come: HeardEvent[] = []
  const parser = createParser({
    onEvent: ({ id, event = 'message', data }) =>
      void come.push({
        event,
        ...(id !== undefined && { id: Number(id) }),
        data: JSON.parse(data),
      }),
  })
  const decoder = new TextDecoder()
  const reader = body?.getReader()
  for (;;) {
    const part = await reader?.read().catch(() => undefined)
    if (!part || part.done) return
    parser.feed(decoder.decode(part.value, { stream: true }))
    yield* come.splice(0)
  }
}

const ended = (event: string | undefined, passed: readonly string[]): string =>
  `The stream of events ended before ${event === undefined ? 'an event' : `"${event}"`} came; ` +
  `it had ${passed.join(', ') || 'nothing'} meanwhile.`
