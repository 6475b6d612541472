import type { RuntimeError } from '../../../errors.ts'
import { isRetryable } from '../../../errors.ts'
import type { Emit, EventPart, ToolCall, TurnEvents } from '../../../plugin.ts'
import { reasonOf } from '../turn/consent.ts'
import { fieldsIn, isRecord } from '../../base/fields.ts'
import type { ForeignSource, RenderedComponent, Run, WaitingCall } from '../../turns/run.ts'
import { jsonOf } from './tool-content.ts'

/** The loop that events come from: that of the turn, or that of a sub-agent. */
export interface EventOrigin {
  /** The id of the call that started the sub-agent; undefined for the loop of the turn. */
  readonly parentEventId?: string
  /** Gets each component that a handler rendered, for the journal. */
  onComponent(component: RenderedComponent): void
}

type Told = Pick<Run, 'runId' | 'sessionId' | 'requestId' | 'emit'> & Partial<Pick<Run, 'request'>>

/** Tells a run's listeners what happens, as events of the wire. A closed narrator sends nothing. */
export class Narrator {
  readonly #run: Told
  #closed = false
  readonly #rendered = new Map<string, number>()
  #reasoning = false

  constructor(run: Told) {
    this.#run = run
  }

  /** Ends the narration, so that what a tool emits after its run has ended reaches no listener. */
  close(): void {
    this.#closed = true
  }

  /** Whether the listeners got anything that they can take for an answer. */
  spoke = false

  /** Sends a piece of the model's answer. */
  message(content: string): void {
    if (content === '') return
    this.#endReasoning()
    this.spoke = true
    this.#tell('message', { content })
  }

  /** Sends a piece of the model's reasoning. */
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

  /** Tells that another model answers than the one that was asked for. */
  instead({ model, instead, code }: { model: string; instead: string; code: string }): void {
    this.#endReasoning()
    this.#tell('model', { model, instead, code })
  }

  /** Tells that a model reads less of the conversation from now on. The transcript keeps every word. */
  context(shortened: TurnEvents['context']): void {
    this.#tell('context', shortened)
  }

  /** Tells that a call begins, or with `ending`, that the call has ended. */
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
      ...(this.#isParked(call.name) && { client: true }),
      ...statusOf(ending),
      ...(foreign.length > 0 && { foreign, reason: reasonOf(foreign) }),
    })
  }

  /** Whether the run stands still for calls of this tool, which the client carries out. */
  #isParked(tool: string): boolean {
    const { clientTools, tools = [] } = this.#run.request ?? {}
    return clientTools === 'park' && tools.some(({ name }) => name === tool)
  }

  /** The same for an action of the client, in an event of its own name. */
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

  /** Asks the client to carry out a tool of the browser. */
  browserToolCall({ id, name, args }: ToolCall): void {
    this.#tell('browser_tool_call', {
      ...this.#where(),
      toolCallId: id,
      toolName: name,
      args: asObject(args),
    })
  }

  /** Tells that the run waits: for a person's decision about a call, or for the client and what it makes of its calls. */
  interrupt(waits: WaitingCall): void {
    const { toolCallId, toolName, args, question, foreign, reason, kind, calls } = waits
    const { runId } = this.#run
    if (kind === 'client') {
      const told = (calls ?? []).map((call) => ({ ...call, args: asObject(call.args) }))
      return this.#tell('client_calls', { runId, calls: told })
    }
    this.#tell('interrupt', {
      runId,
      kind: 'approval',
      toolName,
      args: asObject(args),
      toolCallId,
      ...(question !== undefined && { question }),
      ...(foreign && { foreign, reason }),
    })
  }

  /** Asks the client for a new delegation. */
  delegationRequired(oracleDid: string, reason: string): void {
    this.#tell('delegation_required', { oracleDid, reason })
  }

  /** Tells that the turn failed. */
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

  /** Makes the `ctx.emit` of a handler. For a tool, the events name the call that it carries out. */
  emitOf({ parentEventId, onComponent }: EventOrigin, toolCallId: string | undefined): Emit {
    return {
      component: (name, given, { id, status = 'done' } = {}) => {
        if (this.#closed) return
        // A handler may give any value. The round through JSON makes plain data of it.
        const args = asObject(JSON.parse(jsonOf(given)))
        // A tool that runs again after a crash renders under the same ids, so the new components replace the old ones.
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
        this.#tell('progress', {
          toolCallId: parentEventId ?? toolCallId,
          // A tool that divides by a count of 0 tells of no number, which no JSON has.
          done: Number.isFinite(done) ? Math.max(0, done) : 0,
          total: Number.isFinite(total) && Number(total) > 0 ? total : undefined,
          note,
        }),
      router: (route) => this.#tell('router', { route }),
      invalidate: (status) => this.#tell('message_cache_invalidation', { status }),
    }
  }

  /** Tells a client that draws an action the arguments of the action, as far as the model has written them. */
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

  /** The feed adds the time where an event has one. */
  #tell<Name extends keyof TurnEvents>(
    event: Name,
    data: Omit<TurnEvents[Name], 'timestamp'> & { readonly timestamp?: string },
  ): void {
    if (!this.#closed) this.#run.emit(event, data)
  }
}

/** How a call ended, for its listeners. */
export interface CallEnding {
  readonly output?: string
  readonly error?: string
  readonly parts?: readonly EventPart[]
}

function statusOf(
  ending: CallEnding | undefined,
): Pick<TurnEvents['action_call'], 'status' | 'output' | 'error' | 'parts'> {
  if (!ending) return { status: 'isRunning' }
  const { output, error, parts } = ending
  return error === undefined
    ? { status: 'done', output, ...(parts?.length && { parts }) }
    : { status: 'error', error, output }
}

function kindOf(code: string): string | undefined {
  if (code.startsWith('MODEL_')) return 'model'
  return code === 'PAYMENT_REQUIRED' ? 'payment_required' : undefined
}

/** Gives arguments as an object, because clients read fields. A value that is no object becomes the field `value`. */
function asObject(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : { value }
}

const now = () => new Date().toISOString()
