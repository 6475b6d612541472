import type {
  AnyPlugin,
  Emit,
  Model,
  ModelCall,
  Session,
  StateOf,
  TurnContext,
  User,
} from '../../../plugin.ts'
import type { Facts } from '../../audit/line.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import type { Waiting } from '../../base/onion.ts'
import type { ModelScope, PluginBase, PluginRecord } from '../../base/plugin-record.ts'
import type { TurnWatch } from '../../telemetry/turn-watch.ts'
import type { TurnRequest } from '../../turns/run.ts'
import type { CallsOfTurn } from './calls.ts'
import type { Consent } from './consent.ts'
import type { FilesOfTurn } from './files.ts'

/** What one turn shares between all plugins. Handlers see their plugin's part of the turn as `ctx`. */
export interface Turn {
  readonly user: User
  /** What the operator has granted; absent where no operator can grant anything. */
  readonly rights?: Rights
  readonly session: Session
  readonly room: string
  readonly requestId: string
  /** The first run of the chain of approvals that the turn belongs to. */
  readonly rootId: string
  readonly signal: AbortSignal
  readonly model: Model
  /** The run of the turn; absent where no run carries it. */
  readonly runId?: string
  /** How often plugins have asked models aside. The turn and its sub-agents share it. */
  readonly asked?: { count: number }
  /** Told of each call of a model that plugins make in the turn. */
  readonly tell?: (call: ModelCall) => void
  /** What came with the request: frozen, for handlers to read. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** The plugin that started the turn. */
  readonly origin?: string
  /** What the user said. */
  readonly message?: string
  /** Others read along in the room of the session. */
  readonly shared?: boolean
  /** The names of the tools that there are in this turn; without it, all that there are. */
  readonly allow?: ReadonlySet<string>
  /** What was read of other people's words, and whether a person can be asked. The turn and its sub-agents share it. */
  readonly consent: Consent
  /** Whether the session has results by whose handles `read_result` reads on. The turn and its sub-agents share it. */
  readonly results: { areKept: boolean }
  /** The files of the user; absent where nothing keeps files. The turn and its sub-agents share them. */
  readonly files?: FilesOfTurn
  /** Counts and measures what the turn does; absent where nobody watches. */
  readonly watch?: TurnWatch
  /** The calls of models that the turn makes; absent where there is no turn. */
  readonly calls?: CallsOfTurn
  /** Names of the on-demand plugins that this thread has loaded. */
  readonly loaded: Set<string>
  /** The state of each plugin by the plugin's name. The states are plain objects that handlers assign to. */
  readonly states: Map<string, Record<string, unknown>>
  /** Makes a handler's `ctx.emit`. The id of a tool call tells listeners whose progress they hear of. */
  emit(toolCallId?: string): Emit
}

/** The tool call that a handler is part of. */
export interface OfCall {
  readonly id: string
  /** What the handler adds to the audit line of the call. */
  readonly facts?: Facts
  /** Fires when the turn is stopped, or the call has taken too long. */
  readonly signal?: AbortSignal
}

/** The context of one plugin's handler in a turn. */
export function turnContext(record: PluginRecord, turn: Turn, call?: OfCall): TurnContext {
  const signal = call?.signal ?? turn.signal
  const fetch = record.base && turn.watch?.outgoing(record.base.fetch)
  return {
    ...(record.base as PluginBase), // a turn only reaches plugins whose setup has finished
    ...record.modelsWithin?.(scopeOf(turn, signal)),
    ...(fetch && { fetch }),
    user: turn.user,
    message: turn.message ?? '',
    session: turn.session,
    room: turn.room,
    requestId: turn.requestId,
    signal,
    audit: (ids) => call?.facts?.add(ids),
    callKey: call ? `${turn.rootId}:${call.id}` : '',
    metadata: turn.metadata ?? noMetadata,
    origin: turn.origin,
    shared: turn.shared ?? false,
    approvals: turn.consent.approvals,
    emit: turn.emit(call?.id),
    state: stateOf(turn, record.name),
    stateOf: <P extends AnyPlugin>(plugin: P) =>
      frozen(structuredClone(stateOf(turn, plugin.name))) as Readonly<StateOf<P>>,
  }
}

/** What the log says of a layer that keeps a turn waiting. */
export function waitingTurn(
  { name, base }: PluginRecord,
  kind: 'turn' | 'model' | 'tool',
  { requestId, runId, session }: Turn,
  more?: object,
): Waiting | undefined {
  const fields = { requestId, runId, sessionId: session.id, ...more }
  return base && { log: base.log, layer: `middleware.${kind} of ${name}`, what: 'a turn', fields }
}

/** What a turn has of its request. */
export const ofRequest = ({ message, from, metadata, origin, allow, shared }: TurnRequest) => ({
  message: from === 'plugin' ? '' : message,
  metadata: metadata && frozen(metadata),
  origin,
  allow: allow && new Set(allow),
  shared,
})

/** The turn as far as it matters to the models that its handlers ask. */
const scopeOf = (turn: Turn, signal: AbortSignal): ModelScope => ({
  signal: () => signal,
  model: turn.model,
  did: turn.user.did,
  // The run as `runs.end` names it, also where another run goes on with it.
  ...(turn.runId !== undefined && { runId: turn.rootId }),
  sessionId: turn.session.id,
  asked: turn.asked,
  tell: turn.tell,
})

function stateOf(turn: Turn, plugin: string): Record<string, unknown> {
  const state = turn.states.get(plugin)
  if (state) return state
  const fresh: Record<string, unknown> = {}
  turn.states.set(plugin, fresh)
  return fresh
}

const noMetadata = Object.freeze({})

/** Freezes a value all through, so that a handler that writes into it gets a TypeError. */
export function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  for (const inner of Object.values(value)) frozen(inner)
  return Object.freeze(value)
}
