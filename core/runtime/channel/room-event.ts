import type { Framing } from './framing.ts'

/** Which run an event belongs to. */
interface RunFacts {
  readonly sessionId: string
  readonly runId: string
  readonly requestId: string
}

/** One event on its way to the sockets of a session. It is put into each framing's words once. */
export class RoomEvent {
  readonly name: string
  /** The call that a client is asked to carry out. */
  readonly asks: string | undefined
  /** How the arguments of an action grow, for clients that draw it while they do. */
  readonly isArriving: boolean = false
  /** JSON, with the facts of the run in front. */
  readonly payload: string
  readonly #frames = new Map<Framing, string | undefined>()

  /** `seq` is the number that the event has in the stream of its run. */
  constructor(facts: RunFacts, name: string, data: string, seq?: number) {
    this.name = name
    const { sessionId, runId, requestId } = facts
    const eventId = `${runId}-${seq}`
    // By hand: this is done for every token, and there is none of these fields in it.
    if (name === 'message') {
      this.payload = `${JSON.stringify({ sessionId, requestId, runId, eventId, seq }).slice(0, -1)},${data.slice(1)}`
      return
    }
    const own = JSON.parse(data) as { toolCallId?: string; status?: string } // an event of ours
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
