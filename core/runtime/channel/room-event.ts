import type { Framing } from './framing.ts'

/** Which run an event belongs to. */
interface RunFacts {
  readonly sessionId: string
  readonly runId: string
  readonly requestId: string
}

/** One event on its way to the sockets of a session. The event is written once for each framing. */
export class RoomEvent {
  readonly name: string
  /** The call that a client is asked to carry out. */
  readonly asks: string | undefined
  /** Whether the event shows the arguments of an action as they grow, for clients that draw the action meanwhile. */
  readonly isArriving: boolean = false
  /** JSON, with the facts of the run in front. */
  readonly payload: string
  readonly #frames = new Map<Framing, string | undefined>()

  /** `seq` is the number that the event has in the stream of its run. */
  constructor(facts: RunFacts, name: string, data: string, seq?: number) {
    this.name = name
    const { sessionId, runId, requestId } = facts
    const eventId = `${runId}-${seq}`
    // By hand: this runs for every token, and the data of a token has none of the fields below.
    if (name === 'message') {
      this.payload = `${JSON.stringify({ sessionId, requestId, runId, eventId, seq }).slice(0, -1)},${data.slice(1)}`
      return
    }
    const own = JSON.parse(data) as { toolCallId?: string; status?: string } // an event that the runtime wrote
    const isCall =
      name === 'browser_tool_call' || (name === 'action_call' && own.status === 'isRunning')
    this.asks = isCall ? own.toolCallId : undefined
    this.isArriving = name === 'render_component' && own.toolCallId !== undefined
    this.payload = JSON.stringify({
      sessionId,
      requestId,
      runId,
      eventId: own.toolCallId ?? eventId,
      seq,
      ...own,
    })
  }

  frame(framing: Framing): string | undefined {
    if (!this.#frames.has(framing)) this.#frames.set(framing, framing.event(this))
    return this.#frames.get(framing)
  }
}
