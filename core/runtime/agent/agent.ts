import type {
  Database,
  Log,
  Message,
  Model,
  ModelCall,
  RunUsage,
  SaidBefore,
  Session,
  ToolSpec,
  User,
} from '../../plugin.ts'
import type { Instructions } from '../../plugin/context.ts'
import type { AuditTrail } from '../audit/trail.ts'
import type { Graph, Kept } from './state/graph.ts'
import { asSent, Consent } from './turn/consent.ts'
import { branchHead, keptAt, shownState } from './kept-at.ts'
import { listCapabilities, type ListedCapability, toolBytes } from './capability-list.ts'
import { loadCapabilities, type LoadResult } from './turn/capabilities.ts'
import { mended, opened } from './ask/history.ts'
import { composeModel, type CallModel } from './ask/model-call.ts'
import type { Rights } from '../auth/grants/rights.ts'
import { Chain } from '../model/chain.ts'
import { estimatedUsage } from '../model/estimate.ts'
import { costOf } from '../model/usage/counts.ts'
import { isActive, type PluginRecord } from '../base/plugin-record.ts'
import { type NextPrompt, nextPrompt } from './ask/next-prompt.ts'
import { SystemPrompt } from './ask/prompt.ts'
import type { LoopLimits } from './loop.ts'
import { windowParts, type WindowParts } from './loop-window.ts'
import type { Files } from '../files/files.ts'
import type { RoomState } from '../store/room-state.ts'
import type { KeptAt } from '../turns/branches/branches.ts'
import type { Engine, Run, RunEnd } from '../turns/run.ts'
import { asTold, toUserMessage } from '../turns/user-message.ts'
import { SessionMemory } from './session-memory.ts'
import { loadRoom, stateKeys, TurnState, type StateKey } from './state/state.ts'
import type { Tools } from './tools/tools.ts'
import { AgentTurn } from './agent-turn.ts'
import { isMoreThanCost } from '../turns/journal/steps.ts'
import { composeTurn, type TurnOnion } from './turn-onion.ts'
import type { Turn } from './turn/turn.ts'

/** What an agent is made of. */
export interface AgentOptions {
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly db: Database
  readonly rooms: RoomState
  /** The files of users. */
  readonly files?: Files
  readonly log: Log
  /** Takes the audit lines about the writes of tools. */
  readonly audit?: AuditTrail
  /** What the agent is called. */
  readonly name: string
  /** Who the agent is and how it speaks. */
  readonly instructions?: Instructions
  /** The DID that a delegation of the user has to name as its audience. */
  readonly oracleDid: string
  /** What the operator has granted. */
  readonly rights?: Rights
  /** Whether any of these links of a user's tokens is revoked by now. */
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  /** The model of a name, or the default one; throws when no model has the name. */
  readonly model: (name?: string) => Model
  /** Told of each call of a model when it has ended. */
  readonly onCall?: (call: ModelCall) => void
  /** How long a client may take over a call of its own tools. */
  readonly clientToolTimeoutMs?: number
  /** How long the prompts of all plugins together may take. */
  readonly promptBudgetMs?: number
  /** How much one loop of model and tools does, whether of a turn or of a sub-agent. */
  readonly loopLimits?: LoopLimits
  /** How older parts of conversations are summarised; without it they are left out where a model cannot read all. */
  readonly summaries?: { readonly small: () => Model | undefined }
}

/** How much of a history is read: a token has at most six bytes, and a summary stands for more than a window. */
const [bytesPerToken, leastToSummarise] = [6, 1_000_000]

const usualLimits: LoopLimits = { modelCalls: 25, callsAtOnce: 64 }

/** A session, and the checkpoint that its last run left behind. */
export interface SessionHead {
  readonly id: string
  readonly checkpoint?: string
}

/** Of whom, and with which model, a session between two turns is asked about. */
export interface Resting {
  readonly user: User
  readonly room: string
  readonly requestId: string
  /** The id of the model; by default the default one. */
  readonly model?: string
}

/** The engine that carries out turns, and what the engine knows of its sessions. An app has one. */
export class Agent {
  readonly #options: AgentOptions
  readonly #keys: readonly StateKey[]
  readonly #memory = new SessionMemory()
  /** The turns that this process carries out, by session. */
  readonly #live = new Map<string, Turn>()
  readonly #window: WindowParts
  #turnOnion: TurnOnion
  #callModel: CallModel
  #graph?: Promise<Graph>
  /** How often a conversation had to be read again; a turn that began before leaves nothing in the memory. */
  #unlearned = 0

  constructor(options: AgentOptions) {
    const { records } = options
    this.#options = options
    this.#keys = stateKeys(records)
    this.#window = windowParts(options)
    this.#turnOnion = composeTurn(records)
    this.#callModel = composeModel(records, options.log, this.#window.gauges)
  }

  /** Loads LangGraph, which takes longer than the rest of the start. Call `warm` once the server listens. */
  async warm(): Promise<void> {
    await this.#loadGraph()
  }

  /** Has a turn without words pass through the graph, of which nothing is left. */
  async practise(): Promise<void> {
    const graph = await this.#loadGraph()
    await graph.pass({ thread: 'practice', begins: true, work: async () => undefined })
  }

  #loadGraph(): Promise<Graph> {
    this.#graph ??= import('./state/graph.ts').then(({ createGraph }) =>
      createGraph(this.#options.db, this.#keys),
    )
    return this.#graph
  }

  /** Takes in the middleware of a plugin whose setup finished after the server was up. It runs from the next turn on. */
  join(): void {
    this.#turnOnion = composeTurn(this.#options.records)
    const { records, log } = this.#options
    this.#callModel = composeModel(records, log, this.#window.gauges)
  }

  /** Carries out one run. */
  readonly engine: Engine = async (run) => {
    const {
      log,
      clientToolTimeoutMs = 60_000,
      promptBudgetMs = 500,
      loopLimits = usualLimits,
    } = this.#options
    const unlearned = this.#unlearned
    const anew = !run.takenOver && !run.continues
    const past = anew ? [] : await run.journal.read()
    for (const { messages } of past)
      for (const message of messages)
        if (message.role === 'tool') run.watch?.past(this.#options.tools.nameOf(message.name))
    if (past.findLast(isMoreThanCost)?.partial) return { status: 'interrupted' }

    const graph = await this.#loadGraph()
    const agentTurn = new AgentTurn(run, past, {
      ...this.#options,
      clientToolTimeoutMs,
      promptBudgetMs,
      loopLimits,
      keys: this.#keys,
      turnOnion: this.#turnOnion,
      callModel: this.#callModel,
      window: this.#window,
      history: (model) => this.#history(run, model),
      live: this.#live,
    })
    const left = await graph.pass({
      thread: run.sessionId,
      checkpoint: run.checkpoint,
      begins: anew && run.checkpoint === undefined,
      resume: run.continues?.decision,
      work: (kept, decided) => agentTurn.take(kept, decided),
    })
    const end = agentTurn.end()
    const { conversation } = agentTurn
    // While a turn waited for a person, a plugin may have spoken: such words stand in the journal alone.
    const isWhole = unlearned === this.#unlearned
    if (conversation && isWhole && !run.continues && !run.request.history)
      this.#memory.keep(run, conversation)
    else this.#memory.forget(run.sessionId)
    if (end.status === 'finished')
      return { status: 'finished', ...(end.ended && { ended: end.ended }), ...left }
    if (end.status !== 'failed') return { status: end.status, ...left }
    const { error } = end
    if (error.cause) log.error({ err: error.cause, requestId: run.requestId }, error.message)
    return { status: 'failed', error, ...left }
  }

  /**
   * What an answer cost of which only the words are left, for its process died or its model did not stop: an estimate by the
   * conversation that the model had read and by these words.
   */
  async usageOf(run: Run, said: string): Promise<RunUsage> {
    const model = this.#options.model(run.request.model)
    const steps = (await run.journal.read()).filter(({ within }) => within === undefined)
    const words = asTold(toUserMessage(run.runId, run.request))
    const messages = [
      ...(await this.#history(run, model)),
      words,
      ...steps.flatMap((step) => step.messages.map(asSent)),
    ]
    const asked = model instanceof Chain ? (model.members[0] ?? model) : model
    const usage = estimatedUsage({ messages, tools: [] }, said.length)
    const cost = costOf(usage, asked.price)
    return { model: asked.id, ...usage, ...(cost !== null && { cost }) }
  }

  async #history(run: Run, model: Model): Promise<readonly Message[]> {
    const { history } = run.request
    if (history) return opened(history.map(asMessage))
    const known = run.continues ? undefined : this.#memory.recall(run)
    if (known) return known
    const bytes = this.#window.gauges.windowOf(model) * bytesPerToken
    const read = await run.journal.history(
      this.#window.summarises ? Math.max(bytes, leastToSummarise) : bytes,
    )
    return opened(mended(read).map(asSent))
  }

  /**
   * Loads capabilities because a caller asks, not the model. A turn that is under way has the capabilities from its next
   * step on. Without such a turn the session keeps them, and `checkpoint` is the session's new head.
   */
  async load(
    session: SessionHead,
    names: readonly string[],
    user: User,
  ): Promise<{ readonly result: LoadResult; readonly checkpoint?: string }> {
    const { records, rights } = this.#options
    const live = this.#live.get(session.id)
    const caller = { user, rights }
    if (live) return { result: loadCapabilities(records, names, live.loaded, caller) }
    const graph = await this.#loadGraph()
    let result: LoadResult | undefined
    const { checkpoint, save } = await graph.pass({
      thread: session.id,
      checkpoint: session.checkpoint,
      async work({ loadedPlugins }) {
        const loaded = new Set(loadedPlugins)
        result = loadCapabilities(records, names, loaded, caller)
        const grown = loaded.size > (loadedPlugins?.length ?? 0)
        return grown ? { loadedPlugins: [...loaded], states: {} } : undefined
      },
    })
    if (save) await this.#options.db.transaction().execute(save)
    return { result: result!, checkpoint } // the work was done, or `pass` has thrown
  }

  /** What another thread begins with that branches off at a step; its `save` writes it. */
  async headOf(at: KeptAt, thread: string): Promise<Pick<RunEnd, 'checkpoint' | 'save'>> {
    return branchHead(await this.#loadGraph(), this.#keys, at, thread)
  }

  /** What a session had loaded and kept for itself at a step. */
  async stateAt(at: KeptAt): Promise<ReturnType<typeof shownState>> {
    return shownState(await keptAt(await this.#loadGraph(), this.#keys, at))
  }

  /** What `GET /capabilities` answers. With a session of the caller, `loaded` speaks of that session. */
  async capabilities(
    caller: Resting,
    session?: SessionHead,
  ): Promise<{
    /** How many bytes of the system prompt are the app's instructions. */
    readonly instructionsBytes: number
    /** How many bytes of prompt and tools every call of a model is sent now, and were everything loaded. */
    readonly now: number
    readonly all: number
    readonly plugins: readonly ListedCapability[]
  }> {
    const { records, tools } = this.#options
    const { turn, prompt, about, loaded } = await this.#resting(caller, session)
    const { instructionsBytes } = prompt
    const bytesOf = await prompt.bytes()
    const names = records.filter(isActive).map((record) => record.name)
    const whole: Turn = { ...turn, loaded: new Set(names) }
    const [now, all] = await Promise.all([
      sentBytes(prompt, tools.specs(turn)),
      sentBytes(new SystemPrompt({ ...about, turn: whole }), tools.specs(whole)),
    ])
    const plugins = listCapabilities(records, tools, loaded, bytesOf)
    return { instructionsBytes, now, all, plugins }
  }

  /**
   * What the next call of the model would be sent in a session, in parts with their bytes: the prompt, the tools, and the
   * conversation before it is made to fit a window.
   */
  async promptOf(
    caller: Resting,
    session: SessionHead,
    history: (bytes: number) => Promise<readonly Message[]>,
  ): Promise<NextPrompt> {
    const { tools } = this.#options
    const { turn, prompt, model } = await this.#resting(caller, session)
    const read = await history(this.#window.gauges.windowOf(model) * bytesPerToken)
    return nextPrompt({
      model: model.id,
      parts: await prompt.parts(),
      tools: tools.specs(turn).map((spec) => {
        const plugin = tools.entry(spec.name)?.record?.name
        const of = plugin === undefined ? {} : { plugin }
        return { part: 'tool', name: spec.name, ...of, bytes: toolBytes(spec) }
      }),
      messages: opened(mended(read).map(asSent)),
    })
  }

  /** A session between two turns: what a turn would begin with. */
  async #resting(caller: Resting, session?: SessionHead) {
    const { records, rooms, rights, log, name } = this.#options
    const { model: chosen, ...who } = caller
    const kept: Kept = session
      ? await (await this.#loadGraph()).read(session.id, session.checkpoint)
      : { states: {} }
    const live = session && this.#live.get(session.id)
    const loaded = new Set(live?.loaded ?? kept.loadedPlugins)
    const ofRoom = await loadRoom(rooms, caller.room, this.#keys)
    const states = new TurnState(this.#keys, kept.states, ofRoom, log)
    const model = this.#options.model(chosen)
    const turn: Turn = {
      ...who,
      rights,
      rootId: '',
      results: { areKept: false },
      session: { id: session?.id ?? '' } satisfies Session,
      signal: new AbortController().signal,
      model,
      consent: new Consent(),
      loaded,
      states: states.byPlugin,
      emit: () => silent,
    }
    const { instructions, promptBudgetMs: budgetMs = 500 } = this.#options
    const about = { records, name, instructions, budgetMs, log }
    return { turn, about, loaded, model, prompt: new SystemPrompt({ ...about, turn }) }
  }

  /** Drops what the agent remembers of a conversation, also what turns under way would have it remember. */
  unlearn(sessionId: string): void {
    this.#memory.forget(sessionId)
    this.#unlearned++
  }

  /** Removes what the agent keeps of a session, when the session is deleted. */
  async forget(sessionId: string): Promise<void> {
    this.#memory.forget(sessionId)
    await (await this.#loadGraph()).forget(sessionId)
  }
}

/** A line of what a client believes was said, as a model reads it. */
const asMessage = ({ role, content }: SaidBefore, i: number): Message => ({
  role,
  id: `line-${i}`,
  content,
})

/** How many bytes a prompt and the tools beside it have. */
async function sentBytes(prompt: SystemPrompt, specs: readonly ToolSpec[]): Promise<number> {
  const tools = specs.map(toolBytes)
  return tools.reduce((sum, bytes) => sum + bytes, Buffer.byteLength(await prompt.text()))
}

const silent = {
  component: () => undefined,
  reasoning: () => undefined,
  progress: () => undefined,
  router: () => undefined,
  invalidate: () => undefined,
}
