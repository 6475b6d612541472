import type { AnyPlugin, Emit, Model, Session, StateOf, TurnContext, User } from '../../plugin.ts'
import type { PluginBase, PluginRecord } from '../plugin-record.ts'

/** What one turn shares between all plugins. Handlers see their own slice of it as `ctx`. */
export interface Turn {
  readonly user: User
  readonly session: Session
  readonly room: string
  readonly requestId: string
  readonly signal: AbortSignal
  readonly model: Model
  /** Names of the on-demand plugins that this thread has loaded. */
  readonly loaded: Set<string>
  /** Each plugin's state by the plugin's name; plain objects that handlers assign to. */
  readonly states: Map<string, Record<string, unknown>>
  /** What listeners hear; a tool's call id tells whose progress it is. */
  emit(toolCallId?: string): Emit
}

/** The context of one plugin's handler in a turn. */
export function turnContext(record: PluginRecord, turn: Turn, toolCallId?: string): TurnContext {
  return {
    ...(record.base as PluginBase), // only plugins whose setup has finished are reached from a turn
    user: turn.user,
    session: turn.session,
    room: turn.room,
    requestId: turn.requestId,
    signal: turn.signal,
    model: turn.model,
    emit: turn.emit(toolCallId),
    state: stateOf(turn, record.name),
    stateOf: <P extends AnyPlugin>(plugin: P) => stateOf(turn, plugin.name) as Readonly<StateOf<P>>,
  }
}

function stateOf(turn: Turn, plugin: string): Record<string, unknown> {
  const state = turn.states.get(plugin)
  if (state) return state
  const fresh: Record<string, unknown> = {}
  turn.states.set(plugin, fresh)
  return fresh
}
