import type { PageTools, PageToolCall } from '../../later/page-tools.ts'
import { type OracleError, toOracleError } from '../error.ts'
import type { AnyEvent, RunEnding } from '../events.ts'
import type { RegisteredAction } from '../page.ts'
import type { ChatRunState, IMessage, OracleConfig } from '../records.ts'
import { askAs, type Call, readJson } from '../request.ts'
import type { Timing } from '../timing.ts'
import type { Tokens } from '../tokens.ts'
import { History } from './history.ts'
import { TabMemory, type TabStorage } from './tab-memory.ts'
import { Turn, type TurnStart } from './turn.ts'
import { ChatView, idle } from './view.ts'

/** What a chat is made of. */
export interface ChatParts {
  readonly oracleDid: string
  readonly sessionId: string
  readonly userDid: string
  readonly tokens: Tokens
  readonly timing: Timing
  readonly config: () => Promise<OracleConfig>
  readonly actions: ReadonlyMap<string, RegisteredAction>
  readonly storage: () => TabStorage
  /** The model that the user chose, if any. */
  readonly model: () => string | undefined
  /** How many of the newest messages are read at first, or all. */
  readonly history: number | 'all' | undefined
}

/** The turns of a chat: how the chat follows one, what each of its events means, and how it ends. */
export abstract class ChatTurns extends ChatView {
  protected readonly parts: ChatParts
  protected readonly history = new History()
  protected readonly memory: TabMemory
  protected turn: Turn | undefined
  #pageTools: Promise<PageTools> | undefined

  constructor(parts: ChatParts) {
    const { userDid, oracleDid, sessionId, storage, timing } = parts
    super(sessionId !== '', timing.flushMs)
    this.parts = parts
    this.memory = new TabMemory(storage, `oracle-run ${userDid} ${oracleDid} ${sessionId}`)
  }

  /** Reads the history again. */
  protected abstract load(): Promise<void>
  /** Sends a frame on the channel, where there is one. */
  protected abstract send(frame: unknown): void

  protected get messages(): readonly IMessage[] {
    const { history, turn } = this
    return turn ? [...history.messages, ...turn.messages] : history.messages
  }

  protected async ask(path: string, call?: Call): Promise<Response> {
    const { tokens, oracleDid, config } = this.parts
    const { apiUrl } = await config()
    return askAs(tokens, oracleDid, apiUrl + path, call)
  }

  protected json<T>(path: string, call: Call = {}): Promise<T> {
    return readJson<T>(call, (bounded) => this.ask(path, bounded))
  }

  protected begin(start: TurnStart): Turn {
    const { requestId, runId = null } = start
    this.showRun({ ...idle, requestId, runId })
    return (this.turn = new Turn(start))
  }

  /** Reads a turn to its end. `start` makes the request that begins the run; a run that is known needs none. */
  protected async follow(
    turn: Turn,
    start: (signal: AbortSignal) => Promise<Response> = runIsKnown,
  ): Promise<void> {
    const { follow, LiveReply } = await import('../../later/reading.ts')
    turn.reply ??= new LiveReply(turn.requestId)
    return follow({
      runId: turn.runId,
      once: turn.once,
      signal: turn.signal,
      timing: this.parts.timing,
      begin: start,
      join: (runId, after, signal) =>
        this.ask(`/runs/${runId}`, { headers: { 'last-event-id': String(after) }, signal }),
      onRun: (runId) => {
        if (turn.runId === runId || this.turn !== turn) return
        turn.runId = runId
        this.remember(turn)
        this.showRun({ runId })
      },
      onConnection: (connected, retryAt) => {
        const { run } = this.getSnapshot()
        const isNews = run.reconnecting === connected || run.retryAt !== retryAt
        if (this.turn === turn && isNews) this.showRun({ reconnecting: !connected, retryAt })
      },
      onEvent: (event) => {
        if (this.turn === turn) this.#hear(turn, event)
      },
    })
  }

  #hear(turn: Turn, event: AnyEvent): void {
    this.tell(event)
    const { eventName, payload } = event
    if (eventName === 'run') {
      turn.requestId = payload.requestId
      if (payload.continues) turn.continues = true
      else {
        turn.heard = payload.runId
        this.history.cut(turn)
        this.changed()
      }
      if (payload.resumed) this.showRun({ resumed: this.getSnapshot().run.resumed + 1 })
    } else if (eventName === 'browser_tool_call') this.runPageTool(turn, payload)
    else if (eventName === 'action_call' && payload.status === 'isRunning')
      this.runPageTool(turn, payload, true)
    else if (eventName === 'delegation_required') void this.#authorise()
    else if (eventName === 'message_cache_invalidation') void this.load()
    else if (eventName === 'interrupt') this.set({ approval: payload })
    const toolError = turn.reply?.toolErrorIn(event, turn)
    if (toolError) this.showRun({ toolError })
    const earlier = turn.continues && turn.reply?.withEarlierCallEnded(this.history.messages, event)
    if (earlier) this.history.messages = earlier
    const changed = earlier || turn.reply?.apply(event)
    if (eventName === 'done') return this.end(turn, payload.status)
    if (!changed) return
    this.changed()
    if (this.getSnapshot().status === 'submitted') this.show({ status: 'streaming' })
    else this.touch()
  }

  /** Ends a turn whose run has ended; `ended` is null when the server no longer knows how. */
  protected end(turn: Turn, ended: RunEnding | null): void {
    if (this.turn !== turn) return
    if (ended !== 'waiting') this.memory.write()
    this.#settle(turn, ended)
    this.showRun({ ended, reconnecting: false, retryAt: undefined })
    if (ended === 'failed' && turn.reply) return this.#refused(turn, turn.reply.failure)
    this.show({ status: 'ready' })
    // Another tab said something newer: this one goes on with that.
    if (ended === 'interrupted' && this.isMounted) void this.load()
  }

  /** Ends a turn that could not begin, or whose stream cannot be read any more. */
  protected fail(turn: Turn, error: OracleError): void {
    if (this.turn !== turn) return
    if (turn.isStopped) return this.end(turn, 'aborted')
    const { runId, user } = turn
    this.#settle(turn)
    if (!runId) this.history.unsent = user
    this.showRun({
      ended: runId ? 'disconnected' : 'failed',
      reconnecting: false,
      retryAt: undefined,
    })
    this.#refused(turn, error)
    if (runId && this.isMounted) void this.load()
  }

  /** Stops reading the turn under way; on the server a newer message ends the run. */
  protected leave(): void {
    if (this.turn) this.#settle(this.turn)
  }

  #refused(turn: Turn, error: OracleError): void {
    if (error.code !== 'payment_required')
      return this.show({ status: 'error', sendMessageError: error, error })
    this.history.unsent = turn.user
    this.show({ status: 'ready', sendMessageError: error })
    const use = turn.use ?? this.uses[0]
    use?.onPaymentRequiredError?.([...error.claimIds])
  }

  /** Lets go of a turn, and adds what the turn said to the history. */
  #settle(turn: Turn, ended?: RunEnding | null): void {
    turn.leave(ended)
    this.turn = undefined
    this.history.append(turn)
    this.changed()
  }

  async #authorise(): Promise<void> {
    const { tokens, oracleDid } = this.parts
    try {
      tokens.drop(oracleDid)
      const raw = await tokens.get('delegation', oracleDid)
      await this.json('/delegation', { body: { raw } })
    } catch (error) {
      this.show({ error: toOracleError(error) })
    }
  }

  /** Keeps the turn over a reload of the page. */
  protected remember(turn: Turn): void {
    const { remembered } = turn
    if (remembered && this.turn === turn) this.memory.write(remembered)
  }

  /** The code of the page's tools: a chat whose page has none never loads it. */
  protected get pageTools(): Promise<PageTools> {
    return (this.#pageTools ??= import('../../later/page-tools.ts').then(
      ({ PageTools }) =>
        new PageTools({
          ...this.parts,
          tools: () => this.lent('browserTools'),
          send: (frame) => this.send(frame),
          json: (path, call) => this.json(path, call),
          remember: (turn) => this.remember(turn),
        }),
    ))
  }

  /** Runs a tool of this page, or an action, unless the page has begun that call before. */
  protected runPageTool(turn: Turn, call: PageToolCall, isAction = false): void {
    if (!turn.begin(call.toolCallId)) return
    this.remember(turn)
    void this.pageTools.then((tools) => tools.run(turn, call, isAction))
  }
}

const runIsKnown = () => Promise.reject(new Error('The run is known.'))
