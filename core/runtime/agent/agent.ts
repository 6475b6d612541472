import type { Database, Log, Message, Model, Session, User } from '../../plugin.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { Graph, Kept } from './state/graph.ts'
import { asSent, Consent } from './turn/consent.ts'
import { listCapabilities, type ListedCapability } from './capability-list.ts'
import { loadCapabilities, type LoadResult } from './turn/capabilities.ts'
import { bytesThatFit, mended } from './ask/history.ts'
import { composeModel, type CallModel } from './ask/model-call.ts'
import type { Rights } from '../auth/grants/rights.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { promptBytes } from './ask/prompt.ts'
import type { RoomState } from '../store/room-state.ts'
import type { Engine, Run } from '../turns/run.ts'
import { SessionMemory } from './session-memory.ts'
import { loadRoom, stateKeys, TurnState, type StateKey } from './state/state.ts'
import type { Tools } from './tools/tools.ts'
import { composeTurn, AgentTurn, type TurnOnion } from './agent-turn.ts'
import type { Turn } from './turn/turn.ts'

/** What an agent is made of. */
export interface AgentOptions {
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly db: Database
  readonly rooms: RoomState
  readonly log: Log
  /** Where the writes of tools leave their lines. */
  readonly audit?: AuditTrail
  /** What the agent is called. */
  readonly name: string
  /** Who a delegation has to be made out to. */
  readonly oracleDid?: string
  /** What the operator has granted. */
  readonly rights?: Rights
  /** Whether any of these links of a user's tokens is revoked by now. */
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  /** The model of a name, or the default one; throws when there is none of that name. */
  readonly model: (name?: string) => Model
  /** How long a client may take over a call of its own tools. */
  readonly clientToolTimeoutMs?: number
}

/** Where a session stands: the head that its last run left behind. */
export interface SessionHead {
  readonly id: string
  readonly checkpoint?: string
}

/** The engine that carries out turns, and what it knows of its sessions. One for an app. */
export class Agent {
  readonly #options: AgentOptions
  readonly #keys: readonly StateKey[]
  readonly #memory = new SessionMemory()
  /** The turns that this process carries out, by session. */
  readonly #live = new Map<string, Turn>()
  #turnOnion: TurnOnion
  #callModel: CallModel
  #graph?: Promise<Graph>

  constructor(options: AgentOptions) {
    const { records } = options
    this.#options = options
    this.#keys = stateKeys(records)
    this.#turnOnion = composeTurn(records)
    this.#callModel = composeModel(records)
  }

  /** Loads LangGraph, which takes longer than all the rest. Call it once the server listens. */
  async warm(): Promise<void> {
    await this.#loadGraph()
  }

  #loadGraph(): Promise<Graph> {
    this.#graph ??= import('./state/graph.ts').then(({ createGraph }) =>
      createGraph(this.#options.db, this.#keys),
    )
    return this.#graph
  }

  /** A plugin whose setup finished after the server was up: its middleware counts from the next turn on. */
  join(): void {
    this.#turnOnion = composeTurn(this.#options.records)
    this.#callModel = composeModel(this.#options.records)
  }

  /** Carries out one run. */
  readonly engine: Engine = async (run) => {
    const { log, clientToolTimeoutMs = 60_000 } = this.#options
    const anew = !run.takenOver && !run.continues
    const past = anew ? [] : await run.journal.read()
    if (past.at(-1)?.partial) return { status: 'interrupted' }

    const graph = await this.#loadGraph()
    const agentTurn = new AgentTurn(run, past, {
      ...this.#options,
      clientToolTimeoutMs,
      keys: this.#keys,
      turnOnion: this.#turnOnion,
      callModel: this.#callModel,
      history: (model) => this.#history(run, model),
      live: this.#live,
    })
    const left = await graph.pass({
      thread: run.sessionId,
      checkpoint: run.checkpoint,
      begins: anew && run.previous === undefined && run.checkpoint === undefined,
      resume: run.continues?.decision,
      work: (kept, decided) => agentTurn.take(kept, decided),
    })
    const end = agentTurn.end()
    const { conversation } = agentTurn
    if (conversation) this.#memory.keep(run.sessionId, run.runId, conversation)
    else this.#memory.forget(run.sessionId)
    if (end.status !== 'failed') return { status: end.status, ...left }
    const { error } = end
    if (error.cause) log.error({ err: error.cause, requestId: run.requestId }, error.message)
    return { status: 'failed', error, ...left }
  }

  async #history(run: Run, model: Model): Promise<readonly Message[]> {
    const known = run.continues ? undefined : this.#memory.recall(run.sessionId, run.previous)
    if (known) return known
    return mended(await run.journal.history(bytesThatFit(model.contextWindow))).map(asSent)
  }

  /**
   * Loads capabilities by hand. A turn that is under way has them from its next step on; otherwise they join
   * what the session keeps, and the new head comes back.
   */
  async load(
    session: SessionHead,
    names: readonly string[],
  ): Promise<{ readonly result: LoadResult; readonly checkpoint?: string }> {
    const { records } = this.#options
    const live = this.#live.get(session.id)
    if (live) return { result: loadCapabilities(records, names, live.loaded) }
    const graph = await this.#loadGraph()
    let result: LoadResult | undefined
    const { checkpoint, save } = await graph.pass({
      thread: session.id,
      checkpoint: session.checkpoint,
      async work({ loadedPlugins }) {
        const loaded = new Set(loadedPlugins)
        result = loadCapabilities(records, names, loaded)
        const grown = loaded.size > (loadedPlugins?.length ?? 0)
        return grown ? { loadedPlugins: [...loaded], states: {} } : undefined
      },
    })
    if (save) await this.#options.db.transaction().execute(save)
    return { result: result!, checkpoint } // the work was done, or `pass` has thrown
  }

  /** What `GET /capabilities` answers: for a session of the caller where one is named. */
  async capabilities(
    caller: { readonly user: User; readonly room: string; readonly requestId: string },
    session?: SessionHead,
  ): Promise<{ readonly plugins: readonly ListedCapability[] }> {
    const { records, rooms, rights, tools, log, name, model } = this.#options
    const kept: Kept = session
      ? await (await this.#loadGraph()).read(session.id, session.checkpoint)
      : { states: {} }
    const live = session && this.#live.get(session.id)
    const loaded = new Set(live?.loaded ?? kept.loadedPlugins)
    const ofRoom = await loadRoom(rooms, caller.room, this.#keys)
    const states = new TurnState(this.#keys, kept.states, ofRoom, log)
    const turn: Turn = {
      ...caller,
      rights,
      session: { id: session?.id ?? '' } satisfies Session,
      signal: new AbortController().signal,
      model: model(),
      consent: new Consent(),
      loaded,
      states: states.byPlugin,
      emit: () => silent,
    }
    const bytesOf = promptBytes({ records, name, turn })
    return { plugins: listCapabilities(records, tools, loaded, bytesOf) }
  }

  /** Forgets a session that is deleted. */
  async forget(sessionId: string): Promise<void> {
    this.#memory.forget(sessionId)
    await (await this.#loadGraph()).forget(sessionId)
  }
}

const silent = {
  component: () => undefined,
  reasoning: () => undefined,
  progress: () => undefined,
  router: () => undefined,
  invalidate: () => undefined,
}
