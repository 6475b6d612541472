import { RuntimeError } from '../../errors.ts'
import type { Log, Message, Model, User } from '../../plugin.ts'
import { asSent, Consent } from './turn/consent.ts'
import type { Decided, Kept, Update } from './state/graph.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { AuthenticatedUser } from '../auth/user.ts'
import { asTold, toUserMessage } from '../turns/user-message.ts'
import { quotingRule } from '../base/quote.ts'
import { arrivingArguments, clientTools, clientToolsFault } from './tools/client-tools.ts'
import { RepetitionGuard } from './turn/guards.ts'
import { mended } from './ask/history.ts'
import { goRound, type Loop, type LoopEnd } from './loop.ts'
import { asTurnError, type CallModel } from './ask/model-call.ts'
import { onion, type Layer } from './turn/onion.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { systemPrompt, today } from './ask/prompt.ts'
import type { RoomState } from '../store/room-state.ts'
import { Narrator, type EventOrigin } from './tools/narrator.ts'
import { RunLost, type JournalEntry, type Run } from '../turns/run.ts'
import { loadRoom, saveRoom, TurnState, type StateChange, type StateKey } from './state/state.ts'
import { StepLog, type TakeChanges } from './step-log.ts'
import {
  ofTheRun,
  waitFor,
  type Calling,
  type CallSite,
  type Delegation,
} from './tools/tool-call.ts'
import type { Rights } from '../auth/grants/rights.ts'
import type { ToolEntry } from './tools/entry.ts'
import type { Tools } from './tools/tools.ts'
import { turnContext, type Turn } from './turn/turn.ts'
import { untilAborted } from './turn/until-aborted.ts'

/** Who talks. A user whom a plugin names has come without tokens. */
type TurnUser = User & Partial<Pick<AuthenticatedUser, 'cids' | 'delegationState'>>

/** What the agent lends to each of its turns. */
export interface TurnParts {
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly log: Log
  readonly audit?: AuditTrail
  readonly name: string
  readonly model: (name?: string) => Model
  readonly clientToolTimeoutMs: number
  readonly oracleDid?: string
  readonly rights?: Rights
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  readonly keys: readonly StateKey[]
  readonly rooms: RoomState
  readonly turnOnion: TurnOnion
  readonly callModel: CallModel
  /** The conversation before this turn, as a model is sent it. */
  readonly history: (model: Model) => Promise<readonly Message[]>
  readonly live: Map<string, Turn>
}

/** A turn on its way through the onion; the innermost layer is the turn itself. */
interface TurnCalling {
  readonly turn: Turn
  readonly core: () => Promise<void>
}
/** A turn with the plugins' `turn` layers around it. */
export type TurnOnion = (calling: TurnCalling) => Promise<void>

/** Composes the plugins' `turn` layers, once for all turns. */
export function composeTurn(records: readonly PluginRecord[]): TurnOnion {
  const layers = records
    .filter((record) => record.base && record.definition.middleware?.turn)
    .map((record): Layer<TurnCalling, void> => {
      const layer = record.definition.middleware!.turn!
      return ({ turn }, next) => layer(turnContext(record, turn), next)
    })
  return onion(layers, ({ core }) => core())
}

/** One run, from what its session kept to what it keeps afterwards. */
export class AgentTurn {
  readonly #run: Run
  readonly #past: readonly JournalEntry[]
  readonly #parts: TurnParts
  readonly #narrator: Narrator
  #end?: LoopEnd
  #fault?: { readonly error: unknown }
  #conversation?: readonly Message[]
  #live?: Turn
  #askedForDelegation = false

  constructor(run: Run, past: readonly JournalEntry[], parts: TurnParts) {
    this.#run = run
    this.#past = past
    this.#parts = parts
    this.#narrator = new Narrator(run)
  }

  /** The session's messages up to here as a model is sent them, for its next run; undefined when they were never looked at. */
  get conversation(): readonly Message[] | undefined {
    return this.#conversation
  }

  /** How the turn ended. Throws when another process goes on with the run, or the database failed. */
  end(): LoopEnd {
    if (this.#fault) throw this.#fault.error
    return this.#end ?? this.#fail(nothingWaits())
  }

  /** Takes the turn and returns what is to be kept: nothing when nothing changed, or another process carries the run now. */
  async take(kept: Kept, decided: Decided | undefined): Promise<Update | undefined> {
    const { live } = this.#parts
    const { sessionId } = this.#run
    try {
      // An earlier process died after it had asked a person and before the run stood still: nothing is to be done again.
      const asked = this.#past.at(-1)?.waits
      if (asked && !decided) {
        this.#end = { status: 'waiting', waits: asked }
        return { states: {}, waits: asked }
      }
      return await this.#answer(kept, decided)
    } catch (error) {
      this.#fault = { error }
      return undefined
    } finally {
      this.#narrator.close()
      // A newer run of the session may stand there by now.
      if (live.get(sessionId) === this.#live) live.delete(sessionId)
    }
  }

  async #answer(kept: Kept, decided: Decided | undefined) {
    const { records, tools, log, audit, keys, rooms, history, live } = this.#parts
    const { request, room, sessionId, runId, requestId } = this.#run
    const model = this.#usableModel()
    if (!model) return undefined
    const [earlier, ofRoom] = await Promise.all([history(model), loadRoom(rooms, room, keys)])
    const state = new TurnState(keys, kept.states, ofRoom, log)
    const loaded = new Set(kept.loadedPlugins)
    for (const entry of this.#past) {
      for (const name of entry.loaded ?? []) loaded.add(name)
      if (entry.states) state.replay(entry.states)
    }

    let known = loaded.size
    const takeChanges = async () => {
      const changes = state.changes()
      const states = byPlugin(changes)
      const grown = loaded.size > known // a set that only grows
      known = loaded.size
      const taken = { ...(grown && { loaded: [...loaded] }), ...(states && { states }) }
      await saveRoom(rooms, room, changes)
      return taken
    }

    const stepLog = new StepLog(this.#run.journal, this.#past, takeChanges)
    const before = [...earlier, asTold(toUserMessage(runId, request))]
    const turn = this.#turn(model, loaded, state, stepLog)
    live.set(sessionId, (this.#live = turn))
    const site: CallSite = {
      effects: this.#run.effects,
      decisionOn: (id) => (decided?.waits.toolCallId === id ? decided.decision : undefined),
      audit: audit && ((line) => audit.write({ ...line, requestId, sessionId, runId })),
      guard: new RepetitionGuard(stepLog.messages),
      clientTools: this.#clientTools(),
      onDenied: (isRevoked) => this.#askForDelegation(isRevoked),
      isRevoked: () => this.#isRevoked(),
      delegate: (delegation, calling) => this.#delegate(delegation, calling, { takeChanges, site }),
    }
    const clientSpecs = [...site.clientTools!.values()].map(({ spec }) => spec)
    const { name } = this.#parts
    const { timezone } = request
    await this.#throughTheOnion({
      turn,
      model: turn.model,
      system: () => systemPrompt({ records, name, turn, timezone }),
      specs: () => [...tools.specs(turn), ...clientSpecs],
      before,
      log: stepLog,
      tools,
      callModel: this.#parts.callModel,
      site,
      narrator: this.#narrator,
      hear: {
        text: (text) => this.#narrator.message(text),
        reasoning: (text) => this.#narrator.reasoning(text),
        arguments: arrivingArguments(request, this.#narrator),
      },
    })
    // A layer may change its state on the way out.
    await takeChanges()
    this.#conversation = [...before, ...mended(stepLog.messages).map(asSent)]
    const states = changedSince(kept.states, state.channels())
    const grown = loaded.size > (kept.loadedPlugins?.length ?? 0)
    const waits = this.#end?.status === 'waiting' ? this.#end.waits : undefined
    // A checkpoint like the one before it is not written, unless the one before it waited: the thread waits no more.
    if (!grown && !waits && !decided && Object.keys(states).length === 0) return undefined
    return { ...(grown && { loadedPlugins: [...loaded] }), states, ...(waits && { waits }) }
  }

  /** The model that was asked for; undefined when the request cannot be carried out at all. */
  #usableModel(): Model | undefined {
    const { tools, model } = this.#parts
    const { request } = this.#run
    try {
      const fault = clientToolsFault(request, tools)
      if (fault) throw fault
      return model(request.model)
    } catch (thrown) {
      this.#fail(asTurnError(thrown))
      return undefined
    }
  }

  /** What all handlers of the turn share. */
  #turn(model: Model, loaded: Set<string>, state: TurnState, stepLog: StepLog): Turn {
    const { user, sessionId, room, requestId, signal } = this.#run
    const source: EventOrigin = { onComponent: (component) => stepLog.rendered(component) }
    return {
      user,
      rights: this.#parts.rights,
      session: { id: sessionId },
      room,
      requestId,
      signal,
      model,
      consent: new Consent(this.#run, this.#past),
      loaded,
      states: state.byPlugin,
      emit: (toolCallId) => this.#narrator.emitOf(source, toolCallId),
    }
  }

  /** Once a turn, when there is no delegation in force: the client gets a new one, and the user asks again. */
  #askForDelegation(isRevoked: boolean): void {
    const { delegationState }: TurnUser = this.#run.user
    const reason = isRevoked ? 'revoked' : delegationState
    if (!reason || this.#askedForDelegation) return
    this.#askedForDelegation = true
    this.#narrator.delegationRequired(this.#parts.oracleDid, reason)
  }

  /** A turn can outlive what the user has allowed. */
  #isRevoked(): boolean | Promise<boolean> {
    const { cids }: TurnUser = this.#run.user
    return cids !== undefined && cids.length > 0 && (this.#parts.isRevoked?.(cids) ?? false)
  }

  #clientTools(): ReadonlyMap<string, ToolEntry> {
    const { clientToolTimeoutMs: timeoutMs } = this.#parts
    return clientTools({ run: this.#run, narrator: this.#narrator, timeoutMs })
  }

  async #throughTheOnion(loop: Loop): Promise<void> {
    const { turn, log } = loop
    let going: Promise<LoopEnd> | undefined
    const core = async () => {
      going = goRound(loop)
      const end = await going
      if (end.status === 'failed') throw end.error
    }
    let thrown: { readonly error: unknown } | undefined
    try {
      await untilAborted(turn.signal, this.#parts.turnOnion({ turn, core }))
    } catch (error) {
      thrown = { error }
    }
    // The end of the loop counts, whatever the layers made of it.
    const end = await going
    if (end) this.#end = end
    else if (turn.signal.aborted) {
      if (turn.signal.reason instanceof RunLost) throw turn.signal.reason
      log.writeSoon({ partial: true })
      this.#end = { status: 'aborted' }
    }
    if (end?.status === 'failed') this.#fail(end.error)
    else if (thrown && !turn.signal.aborted && (!end || end.status === 'finished'))
      this.#fail(asTurnError(thrown.error))
    this.#end ??= { status: 'finished', content: '' }
  }

  #fail(error: RuntimeError): LoopEnd {
    this.#narrator.error(error)
    return (this.#end = { status: 'failed', error })
  }

  /** The engine again, for a sub-agent: its own words and tools, everything else the turn's. */
  async #delegate(
    { task, prompt, tools: names, model }: Delegation,
    calling: Calling,
    { takeChanges, site }: { takeChanges: TakeChanges; site: CallSite },
  ): Promise<unknown> {
    const { tools, callModel } = this.#parts
    const { journal, request } = this.#run
    const { id } = calling.call
    const log = new StepLog(journal, this.#past, takeChanges, id)
    const source: EventOrigin = {
      parentEventId: id,
      onComponent: (component) => log.rendered(component),
    }
    const turn: Turn = {
      ...calling.turn,
      model: model === undefined ? calling.turn.model : this.#parts.model(model),
      emit: (toolCallId) => this.#narrator.emitOf(source, toolCallId),
    }
    const only = new Set(names)
    const system = `${prompt}\n\n${quotingRule}\n\n${today(request.timezone)}`
    const guard = new RepetitionGuard(log.messages)
    const end = await ofTheRun(calling, async () => {
      // Its own steps are found again by the id of this call, so that has to be written down first.
      await calling.site.recorded?.()
      return await goRound({
        turn,
        model: turn.model,
        system: () => system,
        specs: () => tools.specs(turn).filter((spec) => only.has(spec.name)),
        before: [{ role: 'user', id, content: task }],
        log,
        tools,
        callModel,
        site: { ...site, only, guard, within: id, clientTools: undefined },
        narrator: this.#narrator,
        hear: { text: () => undefined, reasoning: () => undefined },
        parentEventId: id,
      })
    })
    if (log.messages.some((message) => message.role === 'tool' && message.foreign))
      calling.foreign = true
    switch (end.status) {
      case 'finished':
        return end.content || 'It ended without a word.'
      case 'failed':
        throw end.error
      case 'aborted':
        throw turn.signal.reason
      case 'waiting':
        throw waitFor(calling, end.waits)
    }
  }
}

function byPlugin(changes: readonly StateChange[]): JournalEntry['states'] {
  const thread = changes.filter(({ key }) => key.scope === 'thread')
  if (thread.length === 0) return undefined
  const states: Record<string, Record<string, unknown>> = {}
  for (const { key, after } of thread) (states[key.record.name] ??= {})[key.key] = after ?? null
  return states
}

function changedSince(before: Kept['states'], after: Record<string, unknown>): Kept['states'] {
  return Object.fromEntries(
    Object.entries(after).filter(
      ([channel, value]) => JSON.stringify(value) !== JSON.stringify(before[channel] ?? null),
    ),
  )
}

/** A decision that came where nothing waits. */
const nothingWaits = () =>
  new RuntimeError('CONFLICT', 'Nothing waits for a decision here.', {
    hint: 'It was decided already, or a newer message took its place.',
  })
