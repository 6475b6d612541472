/** The facts that may stand in any event of a run. */
export interface EventFacts {
  readonly runId: string
  readonly sessionId: string
  readonly requestId: string
}

type Data = Readonly<Record<string, unknown>>
type Fact = keyof EventFacts | 'timestamp'

/** Which of the facts stand in an event; clients read them there. */
const factsOf: Readonly<Record<string, readonly Fact[]>> = {
  run: ['runId', 'sessionId', 'requestId'],
  message: ['timestamp'],
  reasoning: ['sessionId', 'requestId', 'timestamp'],
  tool_call: ['sessionId', 'requestId'],
  action_call: ['sessionId', 'requestId'],
  render_component: ['sessionId', 'requestId'],
  browser_tool_call: ['sessionId', 'requestId'],
  interrupt: ['runId'],
  error: ['requestId', 'timestamp'],
  done: ['runId', 'sessionId'],
}

/** The data of an event as text. The text is made once, for all readers and the database. */
export function toData(event: string, data: Data, facts: EventFacts, timestamp: string): string {
  const full: Record<string, unknown> = {}
  for (const name of factsOf[event] ?? [])
    full[name] = name === 'timestamp' ? timestamp : facts[name]
  return JSON.stringify(Object.assign(full, data))
}

/** Pieces of a text, which may be joined while nobody has seen them. */
const pieces: Readonly<Record<string, string>> = { message: 'content', reasoning: 'reasoning' }
/** Joined pieces stay small enough for one frame. */
const joinedLength = 16 * 1024

/** An event that was emitted in this tick and has no number yet. */
export interface Unsealed {
  readonly event: string
  readonly data: Data
  /** The piece of text that it carries, when that is all it is. */
  text: string | undefined
}

/** An event as it waits for the end of the tick. */
export function unsealed(event: string, data: Data): Unsealed {
  const key = pieces[event]
  const text = key !== undefined && data.isComplete !== true ? data[key] : undefined
  return { event, data, text: typeof text === 'string' ? text : undefined }
}

/** Adds a piece to the one before it, where both are of one kind. */
export function join(before: Unsealed | undefined, next: Unsealed): boolean {
  if (before?.text === undefined || next.text === undefined) return false
  if (before.event !== next.event || before.text.length > joinedLength) return false
  // Two sub-agents may think at once.
  if (before.data.parentEventId !== next.data.parentEventId) return false
  before.text += next.text
  return true
}

/** The data of an event as it leaves the tick. */
export function sealed(item: Unsealed, facts: EventFacts, timestamp: string): string {
  const { event, data, text } = item
  if (text === undefined) return toData(event, data, facts, timestamp)
  // Written by hand, because every token comes through here.
  if (event === 'message') return `{"content":${JSON.stringify(text)},"timestamp":"${timestamp}"}`
  return toData(event, { isComplete: false, ...data, reasoning: text }, facts, timestamp)
}
