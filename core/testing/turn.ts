import { createParser } from 'eventsource-parser'

/** One event of a turn's stream. */
export interface StreamedEvent {
  /** The event's number in the stream of its turn. */
  readonly id: number
  /** The event's name. */
  readonly event: string
  /** What the event says. */
  readonly data: any // any: a test asserts on it right away
}

/** A whole turn, as a client saw it. */
export interface Said {
  /** The session of the turn. */
  readonly sessionId: string
  /** The run that the message began. */
  readonly runId: string
  /** Every event, in order. */
  readonly events: readonly StreamedEvent[]
  /** The reply, put together. */
  readonly text: string
  /** What `done` said: `finished`, `waiting`, `failed`, or `cut off` where the stream ended without it. */
  readonly status: string
  /** The data of every event of a name. */
  of(event: string): StreamedEvent['data'][]
  /** The tools that the model called, in order. */
  readonly tools: readonly string[]
}

/** How a test user says something. */
export interface SayOptions {
  /** The session; by default a new one. */
  readonly sessionId?: string
  /** Sends the message as a client does that shows approvals. */
  readonly approvals?: boolean
  /** More fields of the message's body: `tools`, `agActions`, `model`, … */
  readonly body?: Readonly<Record<string, unknown>>
}

type Credentials = () => Promise<Record<string, string>>

/** Sends a message and reads its stream to the end; in a new session where `sessionId` names none. */
export async function say(
  url: string,
  credentials: Credentials,
  message: string,
  { sessionId, approvals, body }: SayOptions = {},
): Promise<Said> {
  const post = async (path: string, value: unknown) => {
    const headers = { ...(await credentials()), 'content-type': 'application/json' }
    const response = await fetch(url + path, {
      method: 'POST',
      headers,
      body: JSON.stringify(value),
    })
    if (!response.ok)
      throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
    return response
  }
  const newSession = async (): Promise<string> =>
    JSON.parse(await (await post('/sessions', {})).text()).sessionId
  const session = sessionId ?? (await newSession())
  const response = await post(`/messages/${session}`, {
    message,
    ...(approvals !== undefined && { approvals }),
    ...body,
  })
  const events = await readEvents(response)
  const of = (event: string) =>
    events.filter((each) => each.event === event).map(({ data }) => data)
  return {
    sessionId: session,
    runId: response.headers.get('x-run-id') ?? '',
    events,
    text: of('message')
      .map(({ content }) => content)
      .join(''),
    status: of('done').at(-1)?.status ?? 'cut off',
    of,
    tools: of('tool_call')
      .filter(({ status }) => status === 'isRunning')
      .map(({ toolName }) => toolName),
  }
}

/** Every event of a stream, up to its end. */
export async function readEvents(response: Response): Promise<StreamedEvent[]> {
  const events: StreamedEvent[] = []
  const parser = createParser({
    onEvent: ({ id, event = '', data }) =>
      void events.push({ id: Number(id), event, data: JSON.parse(data) }),
  })
  const decoder = new TextDecoder()
  for await (const bytes of response.body ?? [])
    parser.feed(decoder.decode(bytes, { stream: true }))
  return events
}
