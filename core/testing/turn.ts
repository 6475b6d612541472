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
  /** Approves the call that the turn waits with, with other arguments where they are given, and reads the rest of the turn. */
  approve(args?: Readonly<Record<string, unknown>>): Promise<Said>
  /** Says no to the call that the turn waits with, and reads the rest of the turn. */
  reject(): Promise<Said>
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
  const post = poster(url, credentials)
  const newSession = async (): Promise<string> =>
    JSON.parse(await (await post('/sessions', {})).text()).sessionId
  const session = sessionId ?? (await newSession())
  const path = `/messages/${session}`
  const response = await post(path, {
    message,
    ...(approvals !== undefined && { approvals }),
    ...body,
  })
  return heard(post, session, response)
}

type Post = (path: string, value: unknown) => Promise<Response>

function poster(url: string, credentials: Credentials): Post {
  return async (path, value) => {
    const headers = { ...(await credentials()), 'content-type': 'application/json' }
    const body = JSON.stringify(value)
    const response = await fetch(url + path, { method: 'POST', headers, body })
    if (response.ok) return response
    throw new Error(`${path} answered ${response.status}: ${await response.text()}`)
  }
}

/** Reads the stream of a turn, or of the rest of one. */
async function heard(post: Post, sessionId: string, response: Response): Promise<Said> {
  const runId = response.headers.get('x-run-id') ?? ''
  const events = await readEvents(response)
  const of = (event: string) =>
    events.filter((each) => each.event === event).map(({ data }) => data)
  const resume = async (decision: object) =>
    heard(post, sessionId, await post(`/runs/${runId}/resume`, decision))
  return {
    sessionId,
    runId,
    events,
    text: of('message')
      .map(({ content }) => content)
      .join(''),
    status: of('done').at(-1)?.status ?? 'cut off',
    of,
    tools: of('tool_call')
      .filter(({ status }) => status === 'isRunning')
      .map(({ toolName }) => toolName),
    approve: (args) => resume(args ? { decision: 'edit', args } : { decision: 'approve' }),
    reject: () => resume({ decision: 'reject' }),
  }
}

/** Every event of a stream up to its end, or of the text of one. */
export async function readEvents(source: Response | string): Promise<StreamedEvent[]> {
  const events: StreamedEvent[] = []
  const parser = createParser({
    onEvent: ({ id, event = '', data }) =>
      void events.push({ id: Number(id), event, data: JSON.parse(data) }),
  })
  if (typeof source === 'string') parser.feed(source)
  else {
    const decoder = new TextDecoder()
    for await (const bytes of source.body ?? [])
      parser.feed(decoder.decode(bytes, { stream: true }))
  }
  return events
}
