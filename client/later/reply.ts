import { claimIdsOf, OracleError } from '../core/error.ts'
import type { AnyEvent, EventPayloads } from '../core/events.ts'
import type { Turn } from '../core/chat/turn.ts'
import type { IMessage, ResultPart, ToolCall } from '../core/records.ts'
import { stopped, withResult } from './tool-call.ts'

/** A message of a reply as the history will have it: some text, and the calls that followed it. */
interface Segment {
  readonly id: string
  text: string
  reasoning: string
  isReasoning: boolean
  calls: ToolCall[]
  isComplete: boolean
  /** How it ended, where it did not come to its own end. */
  ended?: IMessage['ended']
  /** The model that answers, where it is another than the chosen one. */
  readonly model?: string
  /** The message as the chat showed it last; undefined when the segment has changed since. */
  view: IMessage | undefined
}

/** The reply of one run, which this class puts together from the run's events. */
export class LiveReply {
  readonly #requestId: string
  readonly #segments: Segment[] = []
  #views: readonly IMessage[] | undefined
  #count = 0
  #fault: EventPayloads['error'] | undefined
  #model: string | undefined
  #earlierCall: string | undefined

  constructor(requestId: string) {
    this.#requestId = requestId
  }

  /** The messages of the reply; a message that did not change is the same object as before. */
  get messages(): readonly IMessage[] {
    return (this.#views ??= this.#segments.map((segment) => (segment.view ??= toMessage(segment))))
  }

  /** The error of a run that failed, from what its stream said. */
  get failure(): OracleError {
    const {
      error = 'The oracle could not answer.',
      code,
      statusCode,
      claims,
    }: Partial<EventPayloads['error']> = this.#fault ?? {}
    return new OracleError(code === 'PAYMENT_REQUIRED' ? 'payment_required' : 'run_failed', error, {
      status: statusCode,
      serverCode: code,
      details: this.#fault,
      claimIds: claimIdsOf(claims),
    })
  }

  /** The error of a tool that failed, of this page or of the oracle, where an event tells of one. */
  toolErrorIn({ eventName, payload }: AnyEvent, turn: Turn): OracleError | undefined {
    if (eventName !== 'tool_call' && eventName !== 'action_call') return undefined
    const { status, toolName, toolCallId, error } = payload
    if (status !== 'error' || error === undefined) return undefined
    const { message = error }: { message?: unknown } = Object(error)
    const code = turn.hasBegun(toolCallId) ? 'browser_tool_failed' : 'tool_failed'
    return new OracleError(code, `${toolName}: ${String(message)}`)
  }

  /**
   * A run that goes on after an approval ends a call that stands in the history: the messages with that call ended,
   * and without what stands behind it, which the run says again. Undefined when the event does no such thing.
   */
  withEarlierCallEnded(
    history: readonly IMessage[],
    { eventName, payload }: AnyEvent,
  ): readonly IMessage[] | undefined {
    if (eventName !== 'tool_call' || this.#segments.length > 0) return undefined
    const { toolCallId: id = payload.eventId, status, output, error, parts } = payload
    const at = history.findLastIndex(({ toolCalls }) => toolCalls?.some((call) => call.id === id))
    const message = history[at]
    if (!message?.toolCalls) return undefined
    const toolCalls = message.toolCalls.map((call) =>
      call.id === id
        ? { ...call, status, output, error: error as string | undefined, parts }
        : call,
    )
    this.#earlierCall = id
    return [...history.slice(0, at), { ...message, toolCalls }]
  }

  /** The messages of a history up to the earlier call, behind which this reply stands; undefined where it ended no such call. */
  before(history: readonly IMessage[]): readonly IMessage[] | undefined {
    const isEarlier = ({ id }: { readonly id: string }) => id === this.#earlierCall
    const at = history.findLastIndex(({ toolCalls }) => toolCalls?.some(isEarlier))
    return at < 0 ? undefined : history.slice(0, at + 1)
  }

  /** Takes an event; true when the event changes what the chat shows. */
  apply(event: AnyEvent): boolean {
    const { eventName, payload } = event
    switch (eventName) {
      case 'run':
        if (!payload.resumed) return false
        this.#cutText(payload.partialLength ?? 0)
        return true
      case 'model':
        this.#model = payload.model
        break
      case 'message':
        this.#open((segment) => {
          segment.text += payload.content
          segment.isReasoning = false
        })
        return true
      case 'reasoning':
        if (payload.isComplete && payload.reasoning === '') {
          const last = this.#segments.at(-1)
          if (!last?.isReasoning) return false
          this.#change(last, (segment) => (segment.isReasoning = false))
        } else
          this.#open((segment) => {
            segment.reasoning += payload.reasoning
            segment.isReasoning = !payload.isComplete
          })
        return true
      case 'tool_call': {
        const { toolCallId = payload.eventId, eventId } = payload
        // A call that a sub-agent makes is part of the call that started the sub-agent.
        if (toolCallId !== eventId) return false
        this.#call(callOf(toolCallId, payload))
        return true
      }
      case 'action_call':
        this.#call(callOf(payload.toolCallId, payload))
        return true
      case 'render_component': {
        const { eventId: id, componentName: name, args, status = 'done' } = payload
        this.#call({ id, name, args, status }, true)
        return true
      }
      case 'done':
        this.end(payload.ended, true)
        return true
      case 'error':
        this.#fault = payload
    }
    return false
  }

  /** Ends the reply, and says how where that is known: before the oracle had said all of it, unless it `isWhole`. */
  end(ended?: IMessage['ended'] | null, isWhole = false): void {
    const last = this.#segments.at(-1)
    for (const segment of this.#segments)
      this.#change(segment, (one) => {
        one.isReasoning = false
        one.isComplete = isWhole || one !== last
        if (!isWhole) one.calls = one.calls.map(stopped)
        if (one === last) one.ended ??= ended ?? undefined
      })
  }

  /** Replaces a call in the message that has it; false when none has. */
  update(call: ToolCall): boolean {
    const segment = this.#segments.find(({ calls }) => calls.some(({ id }) => id === call.id))
    if (!segment) return false
    this.#change(segment, (one) => {
      one.calls = one.calls.map((each) => (each.id === call.id ? { ...each, ...call } : each))
    })
    return true
  }

  #call(call: ToolCall, isBeside = false): void {
    if (this.update(call)) return
    const last = this.#segments.at(-1)
    // A new round of calls begins a message of its own, as in the history; calls that are made at once share one.
    const isNewRound =
      !isBeside && last?.calls[0] && last.calls.every(({ status }) => status !== 'isRunning')
    const segment = !last || isNewRound ? this.#add() : last
    this.#change(segment, (one) => {
      one.isReasoning = false
      one.calls = [...one.calls, call]
    })
  }

  /** Changes the segment that text goes to: text after calls begins a new one, behind those calls. */
  #open(change: (segment: Segment) => void): void {
    const last = this.#segments.at(-1)
    this.#change(last && !last.calls[0] ? last : this.#add(), change)
  }

  #add(): Segment {
    const before = this.#segments.at(-1)
    if (before) this.#change(before, (one) => (one.isComplete = true))
    const segment: Segment = {
      id: `${this.#requestId}-${this.#count++}`,
      text: '',
      reasoning: '',
      isReasoning: false,
      calls: [],
      isComplete: false,
      model: this.#model,
      view: undefined,
    }
    this.#segments.push(segment)
    return segment
  }

  #change(segment: Segment, change: (segment: Segment) => void): void {
    change(segment)
    segment.view = this.#views = undefined
  }

  /** Cuts the text to what the server kept: another process goes on from there and says the rest again. */
  #cutText(length: number): void {
    let left = length
    for (const segment of [...this.#segments]) {
      const text = segment.text.slice(0, left)
      left -= text.length
      const isLost = !text && !segment.calls[0]
      if (isLost) this.#segments.splice(this.#segments.indexOf(segment), 1)
      else if (text !== segment.text)
        this.#change(segment, (one) => {
          one.text = text
          one.isComplete = false
        })
    }
    this.#views = undefined
  }
}

function toMessage(segment: Segment): IMessage {
  const { id, text, reasoning, isReasoning, calls, isComplete, model, ended } = segment
  return {
    id,
    type: 'ai',
    content: text,
    ...(calls[0] && { toolCalls: calls }),
    ...(reasoning && { reasoning, isReasoning }),
    isComplete,
    ...(model && { model }),
    ...(ended && { ended }),
  }
}

interface CallPayload {
  readonly toolName: string
  readonly args: unknown
  readonly status: 'isRunning' | 'done' | 'error'
  readonly output?: string
  readonly parts?: readonly ResultPart[]
  readonly error?: unknown
}

function callOf(
  id: string,
  { toolName: name, args, status, output, error, parts }: CallPayload,
): ToolCall {
  return withResult({
    id,
    name,
    args,
    status,
    output,
    parts,
    ...(error !== undefined && { error: textOf(error) }),
  })
}

const textOf = (error: unknown): string =>
  typeof error === 'string' ? error : String(Object(error).message ?? JSON.stringify(error))
