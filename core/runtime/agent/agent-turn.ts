import { RuntimeError } from '../../errors.ts'
import type { Log, Message, Model, ModelCall, User } from '../../plugin.ts'
import type { Instructions } from '../../plugin/context.ts'
import { CallsOfTurn } from './turn/calls.ts'
import { Consent, nothingWaits } from './turn/consent.ts'
import type { Decided, Kept, Update } from './state/graph.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { AuthenticatedUser } from '../auth/user.ts'
import { asTold, toUserMessage } from '../turns/user-message.ts'
import { arrivingArguments, clientTools, clientToolsFault } from './tools/client-tools.ts'
import { decisionsOf } from './turn/parked.ts'
import { RepetitionGuard } from './turn/guards.ts'
import { delegate } from './delegate.ts'
import { goRound, type Loop, type LoopEnd, type LoopLimits } from './loop.ts'
import { fittingOf, type WindowParts } from './loop-window.ts'
import { asTurnError, type CallModel, type Hear } from './ask/model-call.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { SystemPrompt } from './ask/prompt.ts'
import type { Files } from '../files/files.ts'
import { UsageSum } from '../model/usage/usage-sum.ts'
import type { RoomState } from '../store/room-state.ts'
import { Narrator, type EventOrigin } from './tools/narrator.ts'
import { addSpent, isMoreThanCost } from '../turns/journal/steps.ts'
import { RunLost, type JournalEntry, type Run } from '../turns/run.ts'
import {
  byPlugin,
  changedSince,
  loadRoom,
  saveRoom,
  TurnState,
  type StateKey,
} from './state/state.ts'
import { StepLog, type TakeChanges } from './step-log.ts'
import type { CallSite } from './tools/tool-call.ts'
import type { Rights } from '../auth/grants/rights.ts'
import { cutResults, wasCut } from './tools/cut-result.ts'
import { writes } from './tools/entry.ts'
import type { Tools } from './tools/tools.ts'
import { ToolsOfTurn } from './tools/turn-tools.ts'
import { FilesOfTurn } from './turn/files.ts'
import { ofRequest, type Turn } from './turn/turn.ts'
import type { TurnOnion } from './turn-onion.ts'
import { untilAborted } from '../base/until-aborted.ts'

/** Who talks. For a user whom a plugin names, there are no tokens. */
type TurnUser = User & Partial<Pick<AuthenticatedUser, 'cids' | 'delegationState'>>

/** What the agent lends to each of its turns. */
export interface TurnParts {
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly log: Log
  readonly audit?: AuditTrail
  /** What the agent is called. */
  readonly name: string
  /** Who the agent is and how it speaks. */
  readonly instructions?: Instructions
  /** The model of a name, or the default one; throws when no model has the name. */
  readonly model: (name?: string) => Model
  readonly clientToolTimeoutMs: number
  /** How long the prompts of all plugins together may take. */
  readonly promptBudgetMs: number
  readonly loopLimits: LoopLimits
  /** The DID that a delegation of the user has to name as its audience. */
  readonly oracleDid: string
  /** What the operator has granted. */
  readonly rights?: Rights
  /** Whether any of these links of a user's tokens is revoked by now. */
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  /** The state keys of all plugins. */
  readonly keys: readonly StateKey[]
  readonly rooms: RoomState
  /** The files of users. */
  readonly files?: Files
  readonly turnOnion: TurnOnion
  readonly callModel: CallModel
  readonly window: WindowParts
  /** Told of each call of a model when it has ended. */
  readonly onCall?: (call: ModelCall) => void
  /** The conversation before this turn, in the form in which a model reads it. */
  readonly history: (model: Model) => Promise<readonly Message[]>
  /** The turns that this process carries out, by session. A turn adds itself and removes itself. */
  readonly live: Map<string, Turn>
}

/** What a turn has of its own, beside its run. */
interface OwnOfTurn {
  readonly model: Model
  /** The conversation up to and with the words that began the turn. */
  readonly before: readonly Message[]
  readonly loaded: Set<string>
  readonly state: TurnState
  readonly stepLog: StepLog
  readonly areKept: boolean
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

  /**
   * The session's messages up to the end of this turn, as a model reads them, for the session's next run. Undefined when the
   * turn ended before it read the conversation.
   */
  get conversation(): readonly Message[] | undefined {
    return this.#conversation
  }

  /** How the turn ended. Throws when another process goes on with the run, or the database failed. */
  end(): LoopEnd {
    if (this.#fault) throw this.#fault.error
    return this.#end ?? this.#fail(nothingWaits())
  }

  /** Takes the turn and returns what the graph keeps: nothing when nothing changed, or another process carries the run now. */
  async take(kept: Kept, decided: Decided | undefined): Promise<Update | undefined> {
    const { live } = this.#parts
    const { sessionId } = this.#run
    try {
      // An earlier process asked a person and died before the graph kept the question: this turn only has to keep it.
      // Nobody has heard the question yet, for readers get it with the end of the run.
      const asked = this.#past.findLast(isMoreThanCost)?.waits
      if (asked && !decided) {
        this.#narrator.interrupt(asked)
        this.#end = { status: 'waiting', waits: asked }
        return { states: {}, waits: asked }
      }
      return await this.#answer(kept, decided)
    } catch (error) {
      this.#fault = { error }
      return undefined
    } finally {
      this.#narrator.close()
      // The entry of the session may be the turn of a newer run by now, and that entry stays.
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

    const takeChanges = this.#takingChanges(state, loaded)
    const stepLog = new StepLog(this.#run.journal, this.#past, takeChanges)
    const before = [...earlier, asTold(toUserMessage(runId, request))]
    const areKept =
      cutResults.isAny(before) || this.#past.some(({ messages }) => messages.some(wasCut))
    const turn = this.#turn({ model, before, loaded, state, stepLog, areKept })
    live.set(sessionId, (this.#live = turn))
    const turnTools = this.#turnTools(turn)
    const lent = {
      run: this.#run,
      past: this.#past,
      parts: this.#parts,
      narrator: this.#narrator,
      takeChanges,
    }
    const site: CallSite = {
      effects: this.#run.effects,
      results: this.#run.results,
      decisionOn: decisionsOf(decided),
      audit: audit && ((line) => audit.write({ ...line, requestId, sessionId, runId })),
      guard: new RepetitionGuard(stepLog.messages),
      turnTools: turnTools.entries,
      onDenied: (isRevoked) => this.#askForDelegation(isRevoked),
      isRevoked: () => this.#isRevoked(),
      delegate: (delegation, calling) => delegate(delegation, calling, { ...lent, site }),
    }
    const { name, instructions, promptBudgetMs: budgetMs } = this.#parts
    const said = { instructions, lines: request.instructions, timezone: request.timezone }
    const fitting = fittingOf(this.#parts.window, {
      turn,
      before,
      log: stepLog,
      narrator: this.#narrator,
      isWrite: (tool) => writes(turnTools.entries.get(tool) ?? tools.entry(tool)),
    })
    const prompt = new SystemPrompt({ records, name, ...said, turn, budgetMs, log })
    await this.#throughTheOnion({
      turn,
      model: turn.model,
      prompt,
      ask: () => turnTools.ask(),
      specs: () => [...tools.specs(turn), ...turnTools.specs()],
      fitting,
      gauges: this.#parts.window.gauges,
      log: stepLog,
      tools,
      callModel: this.#parts.callModel,
      limits: this.#parts.loopLimits,
      site,
      narrator: this.#narrator,
      hear: this.#hear,
    })
    // A layer of the onion may change its plugin's state after `next()`. Readers who hear of the end find all of it kept.
    await takeChanges()
    await stepLog.settled()
    this.#conversation = fitting.conversation()
    return this.#update(kept, decided, loaded, state)
  }

  /** Makes the function that takes what changed since its last call: it keeps the room's part, and gives the journal's. */
  #takingChanges(state: TurnState, loaded: ReadonlySet<string>): TakeChanges {
    const { rooms } = this.#parts
    const { room } = this.#run
    let known = loaded.size
    let saved: Promise<unknown> = Promise.resolve()
    return async () => {
      const changes = state.changes()
      const states = byPlugin(changes)
      const grown = loaded.size > known // handlers only add to the set
      known = loaded.size
      const taken = { ...(grown && { loaded: [...loaded] }), ...(states && { states }) }
      // One after the other: of two values of a key, the later one stays.
      if (changes.length > 0) saved = saved.then(() => saveRoom(rooms, room, changes))
      await saved
      return taken
    }
  }

  /** Tells the listeners what the model says. */
  get #hear(): Hear {
    const narrator = this.#narrator
    return {
      text: (text) => narrator.message(text),
      reasoning: (text) => narrator.reasoning(text),
      instead: (instead) => narrator.instead(instead),
      arguments: arrivingArguments(this.#run.request, narrator),
    }
  }

  /** What the graph keeps of the turn; undefined when nothing changed. */
  #update(
    kept: Kept,
    decided: Decided | undefined,
    loaded: ReadonlySet<string>,
    state: TurnState,
  ): Update | undefined {
    const states = changedSince(kept.states, state.channels())
    const grown = loaded.size > (kept.loadedPlugins?.length ?? 0)
    const waits = this.#end?.status === 'waiting' ? this.#end.waits : undefined
    // After a decision a checkpoint is needed though nothing changed: the checkpoint before still waits for a person.
    if (!grown && !waits && !decided && Object.keys(states).length === 0) return undefined
    return { ...(grown && { loadedPlugins: [...loaded] }), states, ...(waits && { waits }) }
  }

  /** The model that the request names, or the default one; undefined when the turn cannot carry out the request at all. */
  #usableModel(): Model | undefined {
    const { tools } = this.#parts
    const { request } = this.#run
    try {
      const fault = clientToolsFault(request, tools)
      if (fault) throw fault
      return this.#chosen(request.model)
    } catch (thrown) {
      this.#fail(asTurnError(thrown))
      return undefined
    }
  }

  /** The model of an id; where it is offered no more, the default, and the listeners are told. */
  #chosen(id: string | undefined): Model {
    const { model } = this.#parts
    try {
      return model(id)
    } catch (thrown) {
      const isGone = thrown instanceof RuntimeError && thrown.code === 'MODEL_UNKNOWN'
      if (!isGone || id === undefined) throw thrown
      const usual = model()
      this.#narrator.instead({ model: usual.id, instead: id, code: thrown.code })
      return usual
    }
  }

  /** What all handlers of the turn share. */
  #turn({ model, before, loaded, state, stepLog, areKept }: OwnOfTurn): Turn {
    const { user, sessionId, runId, room, requestId, rootId, signal, request } = this.#run
    const { files } = this.#parts
    const calls = this.#calls()
    const source: EventOrigin = { onComponent: (component) => stepLog.rendered(component) }
    return {
      user,
      rights: this.#parts.rights,
      session: { id: sessionId },
      room,
      requestId,
      rootId,
      runId,
      signal,
      model,
      asked: { count: 0 },
      ...ofRequest(request),
      results: { areKept },
      files: files && new FilesOfTurn(files, user.did, sessionId),
      calls,
      watch: this.#run.watch,
      tell: (call) => calls.aside(call),
      consent: new Consent(this.#run, this.#past, before),
      loaded,
      states: state.byPlugin,
      emit: (toolCallId) => this.#narrator.emitOf(source, toolCallId),
    }
  }

  /** The calls of models that the turn makes, after those that an earlier process made. */
  #calls(): CallsOfTurn {
    const { user, sessionId, rootId, journal } = this.#run
    const before = new UsageSum()
    for (const step of this.#past) addSpent(before, step)
    return new CallsOfTurn({
      of: { did: user.did, runId: rootId, sessionId },
      before,
      tell: this.#parts.onCall,
      watch: this.#run.watch,
      // Nobody waits for it: a database that fails makes the run fail by its next step.
      keep: (usage) => void journal.append({ messages: [], usage }).catch(() => undefined),
    })
  }

  /** Asks the client, once in a turn, for a new delegation when none is in force. The user then repeats the message. */
  #askForDelegation(isRevoked: boolean): void {
    const { delegationState }: TurnUser = this.#run.user
    const reason = isRevoked ? 'revoked' : delegationState
    if (!reason || this.#askedForDelegation) return
    this.#askedForDelegation = true
    this.#narrator.delegationRequired(this.#parts.oracleDid, reason)
  }

  /** Whether a token of the user is revoked by now: the user may have revoked it since the turn began. */
  #isRevoked(): boolean | Promise<boolean> {
    const { cids }: TurnUser = this.#run.user
    return cids !== undefined && cids.length > 0 && (this.#parts.isRevoked?.(cids) ?? false)
  }

  /** The tools that this turn alone has. */
  #turnTools(turn: Turn): ToolsOfTurn {
    const { records, tools, log, clientToolTimeoutMs: timeoutMs } = this.#parts
    const client = clientTools({ run: this.#run, narrator: this.#narrator, timeoutMs })
    const known = (name: string) => tools.entry(name)
    return new ToolsOfTurn({ records, turn, known, options: tools.options, client, log })
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
    // The end of a loop that did not finish counts, whatever a layer threw or swallowed; else the error of a layer fails the turn.
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
}
