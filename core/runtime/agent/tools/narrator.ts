import type { RuntimeError } from '../../../errors.ts'
import { isRetryable } from '../../../errors.ts'
import type { Emit, ToolCall } from '../../../plugin.ts'
import { reasonOf } from '../turn/consent.ts'
import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { ForeignSource, RenderedComponent, Run, WaitingCall } from '../../turns/run.ts'
import { jsonOf } from './tool-content.ts'

/** Whose events these are. The events of a sub-agent carry the id of the call that started the sub-agent. */
export interface EventOrigin {
  readonly parentEventId?: string
  /** Takes what was rendered, for the journal. */
  onComponent(component: RenderedComponent): void
}

type Told = Pick<Run, 'runId' | 'sessionId' | 'requestId' | 'emit'>

/** Tells a run's listeners what happens, in the words of the wire. Once closed, a narrator is silent. */
export class Narrator {
  readonly #run: Told
  #closed = false
  readonly #rendered = new Map<string, number>()
  #reasoning = false

  constructor(run: Told) {
    this.#run = run
  }

  /** Falls silent: what a tool emits after its run has ended reaches no listener. */
  close(): void {
    this.#closed = true
  }

  /** Whether the listeners were told anything that they can see as an answer. */
  spoke = false

  message(content: string): void {
    if (content === '') return
    this.#endReasoning()
    this.spoke = true
    this.#tell('message', { content }) // the feed adds the time
  }

  reasoning(reasoning: string): void {
    if (reasoning === '') return
    this.#reasoning = true
    this.#tellReasoning(reasoning, false)
  }

  #endReasoning(): void {
    if (!this.#reasoning) return
    this.#reasoning = false
    this.#tellReasoning('', true)
  }

  #tellReasoning(reasoning: string, isComplete: boolean): void {
    this.#tell('reasoning', { ...this.#where(), reasoning, isComplete })
  }

  /** A call begins, or has come to its end. */
  toolCall(
    call: ToolCall,
    ending: CallEnding | undefined,
    parentEventId: string | undefined,
    foreign: readonly ForeignSource[] = [],
  ): void {
    this.#endReasoning()
    this.#tell('tool_call', {
      ...this.#where(),
      eventId: parentEventId ?? call.id,
      toolCallId: call.id,
      toolName: call.name,
      args: asObject(call.args),
      ...statusOf(ending),
      ...(foreign.length > 0 && { foreign, reason: reasonOf(foreign) }),
    })
  }

  /** The same for an action of the client, which hears it under a name of its own. */
  actionCall(call: ToolCall, ending: CallEnding | undefined): void {
    this.#endReasoning()
    this.#tell('action_call', {
      ...this.#where(),
      toolCallId: call.id,
      toolName: call.name,
      args: asObject(call.args),
      ...statusOf(ending),
    })
  }

  browserToolCall({ id, name, args }: ToolCall): void {
    this.#tell('browser_tool_call', {
      ...this.#where(),
      toolCallId: id,
      toolName: name,
      args: asObject(args),
    })
  }

  interrupt({ toolCallId, toolName, args, foreign, reason }: WaitingCall): void {
    const { runId } = this.#run
    this.#tell('interrupt', {
      runId,
      kind: 'approval',
      toolName,
      args: asObject(args),
      toolCallId,
      ...(foreign && { foreign, reason }),
    })
  }

  delegationRequired(oracleDid: string | undefined, reason: string): void {
    this.#tell('delegation_required', { oracleDid, reason })
  }

  error({ message, code, status, details }: RuntimeError): void {
    const { claims } = fieldsIn(details)
    this.#tell('error', {
      error: message,
      code,
      retryable: isRetryable(code),
      kind: kindOf(code),
      statusCode: status,
      ...(claims !== undefined && { claims }),
      requestId: this.#run.requestId,
      timestamp: now(),
    })
  }

  /** What a handler tells: of its own call, where it is a tool. */
  emitOf({ parentEventId, onComponent }: EventOrigin, toolCallId: string | undefined): Emit {
    return {
      component: (name, given, { id, status = 'done' } = {}) => {
        if (this.#closed) return
        // What a handler gives may hold anything; from here on it is data.
        const args = asObject(JSON.parse(jsonOf(given)))
        // The same read run again after a crash renders under the same id, and replaces what was there.
        const owner = toolCallId ?? this.#run.runId
        const eventId = id === undefined ? `${owner}-${this.#count(owner)}` : `${owner}:${id}`
        this.spoke = true
        onComponent({ eventId, toolCallId: parentEventId ?? toolCallId, name, args })
        this.#tell('render_component', {
          ...this.#where(),
          eventId,
          parentEventId,
          componentName: name,
          args,
          status,
        })
      },
      reasoning: (text) => this.reasoning(text),
      progress: (done, total, note) =>
        this.#tell('progress', { toolCallId: parentEventId ?? toolCallId, done, total, note }),
      router: (route) => this.#tell('router', { route }),
      invalidate: (status) => this.#tell('message_cache_invalidation', { status }),
    }
  }

  /** The arguments of an action, as far as the model has written them, for a client that draws it. */
  arriving(toolCallId: string, name: string, args: Record<string, unknown>): void {
    this.#tell('render_component', {
      ...this.#where(),
      eventId: toolCallId,
      toolCallId,
      componentName: name,
      args,
      status: 'isRunning',
    })
  }

  #count(owner: string): number {
    const nth = (this.#rendered.get(owner) ?? 0) + 1
    this.#rendered.set(owner, nth)
    return nth
  }

  #where() {
    const { sessionId, requestId } = this.#run
    return { sessionId, requestId }
  }

  #tell(event: string, data: Record<string, unknown>): void {
    if (!this.#closed) this.#run.emit(event, data)
  }
}

/** How a call ended, for its listeners. */
export interface CallEnding {
  readonly output?: string
  readonly error?: string
}

function statusOf(ending: CallEnding | undefined) {
  if (!ending) return { status: 'isRunning' }
  const { output, error } = ending
  return error === undefined ? { status: 'done', output } : { status: 'error', error, output }
}

function kindOf(code: string): string | undefined {
  if (code.startsWith('MODEL_')) return 'model'
  return code === 'PAYMENT_REQUIRED' ? 'payment_required' : undefined
}

/** Arguments as an object, because clients read fields: a value that is no object becomes the field `value`. */
export function asObject(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : { value }
}

const now = () => new Date().toISOString()
