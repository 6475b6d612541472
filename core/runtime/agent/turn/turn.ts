import type {
  AnyPlugin,
  Emit,
  Model,
  Session,
  StateOf,
  TurnContext,
  User,
} from '../../../plugin.ts'
import type { Facts } from '../../audit/line.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import type { PluginBase, PluginRecord } from '../../base/plugin-record.ts'
import type { Consent } from './consent.ts'

/** What one turn shares between all plugins. Handlers see their own slice of it as `ctx`. */
export interface Turn {
  readonly user: User
  /** What the operator has granted; absent where nothing ever is. */
  readonly rights?: Rights
  readonly session: Session
  readonly room: string
  readonly requestId: string
  readonly signal: AbortSignal
  readonly model: Model
  /** What was read of other people's words, and who can be asked. One for the turn and its sub-agents. */
  readonly consent: Consent
  /** Names of the on-demand plugins that this thread has loaded. */
  readonly loaded: Set<string>
  /** Each plugin's state by the plugin's name; plain objects that handlers assign to. */
  readonly states: Map<string, Record<string, unknown>>
  /** What listeners hear; a tool's call id tells whose progress it is. */
  emit(toolCallId?: string): Emit
}

/** The context of one plugin's handler in a turn; `facts` are of the tool call that it is part of. */
export function turnContext(
  record: PluginRecord,
  turn: Turn,
  toolCallId?: string,
  facts?: Facts,
): TurnContext {
  return {
    ...(record.base as PluginBase), // only plugins whose setup has finished are reached from a turn
    user: turn.user,
    session: turn.session,
    room: turn.room,
    requestId: turn.requestId,
    signal: turn.signal,
    audit: (ids) => facts?.add(ids),
    model: turn.model,
    approvals: turn.consent.approvals,
    emit: turn.emit(toolCallId),
    state: stateOf(turn, record.name),
    stateOf: <P extends AnyPlugin>(plugin: P) =>
      frozen(structuredClone(stateOf(turn, plugin.name))) as Readonly<StateOf<P>>,
  }
}

function stateOf(turn: Turn, plugin: string): Record<string, unknown> {
  const state = turn.states.get(plugin)
  if (state) return state
  const fresh: Record<string, unknown> = {}
  turn.states.set(plugin, fresh)
  return fresh
}

/** Another plugin's state is its own to change: whoever writes into this copy is told so by a TypeError. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
