import type { ComponentType } from 'react'
import type { RegisteredAction } from './actions.ts'
import { claimIdsOf, OracleError, toOracleError } from './error.ts'
import type { AnyEvent, EventPayloads } from './events.ts'
import { reconciled, shown } from './history.ts'
import type { IBrowserTools, Outcome } from './page-tools.ts'
import type {
  ChatRunState,
  ChatStatus,
  IMessage,
  OracleConfig,
  PendingApproval,
  StreamingMode,
} from './records.ts'
import { remember, remembered, type TabStorage } from './remembered.ts'
import { askAs, type Call, readJson } from './request.ts'
import type { LiveReply } from './reply.ts'
import type { EventSocket } from './socket.ts'
import { Store } from './store.ts'
import { onReturn, pause, type Timing } from './timing.ts'
import type { Tokens } from './tokens.ts'

/** What is to be seen of a chat. */
export interface ChatSnapshot {
  readonly messages: readonly IMessage[]
  readonly status: ChatStatus
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly sendMessageError: OracleError | null
  readonly isRealTimeConnected: boolean
  readonly isConfigReady: boolean
  readonly run: ChatRunState
  readonly approval: PendingApproval | null
}

/** What whoever looks at a chat lends it; read when it is needed, never kept. */
export interface ChatUse {
  readonly browserTools?: IBrowserTools
  readonly uiComponents?: Readonly<Record<string, ComponentType<any>>> // any: each has props of its own
  readonly streamingMode?: StreamingMode
  readonly onPaymentRequiredError?: (claimIds: string[]) => void
}

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
}

/** One run that this chat reads. */
interface Turn {
  requestId: string
  runId?: string
  /** What it says, once the code that reads it is there. */
  reply?: LiveReply
  /** The user's message that began it, while the history does not have it. */
  user?: IMessage
  /** It was begun in this tab: the tools of this page are its tools. */
  readonly isOurs: boolean
  /** Calls that were begun here, and those whose result is still owed. */
  readonly begun: Set<string>
  readonly open: Set<string>
  readonly use?: ChatUse
  readonly leaving: AbortController
  fault?: EventPayloads['error']
  isStopped?: boolean
  /** The rest of an earlier run whose call was approved. */
  continues?: boolean
}

const idle: ChatRunState = {
  runId: null,
  requestId: null,
  reconnecting: false,
  resumed: 0,
  ended: null,
  toolError: null,
}

/** How long the end of a stopped run is waited for before the stream is left. */
const goodbyeMs = 2_000
/** A page that was away for so long asks what happened meanwhile. */
const awayMs = 10_000

/** One session as one user sees it in one tab. React reads it; it knows nothing of React. */
export class Chat extends Store<ChatSnapshot> {
  /** A component shows what waits for the user. One that did once does so again when somebody looks at the chat. */
  declare approvals?: boolean
  readonly #parts: ChatParts
  readonly #key: string
  readonly #uses = new Set<() => ChatUse>()
  readonly #handlers = new Set<(event: AnyEvent) => void>()
  #history: readonly IMessage[] = []
  #turn: Turn | undefined
  #loading: Promise<void> | undefined
  #socket: EventSocket | undefined
  #stopReturning: (() => void) | undefined
  #loadedAt = 0
  #unloaded = true
  #timer: ReturnType<typeof setTimeout> | undefined
  #dirty = false
  #unsent: IMessage | undefined
  #loadError: OracleError | undefined

  constructor(parts: ChatParts) {
    super({
      messages: [],
      status: 'ready',
      isLoading: parts.sessionId !== '',
      error: null,
      sendMessageError: null,
      isRealTimeConnected: false,
      isConfigReady: false,
      run: idle,
      approval: null,
    })
    this.#parts = parts
    this.#key = `oracle-run ${parts.userDid} ${parts.oracleDid} ${parts.sessionId}`
  }

  get sessionId(): string {
    return this.#parts.sessionId
  }

  /** Lends the chat what a component has; returns how to take it back. */
  use(use: () => ChatUse): () => void {
    this.#uses.add(use)
    return () => this.#uses.delete(use)
  }

  /** What those who look lent for rendering. */
  get components(): Readonly<Record<string, ComponentType<any>>> {
    return Object.assign({}, ...[...this.#uses].map((use) => use().uiComponents))
  }

  /** Hears every event of the chat; returns how to stop. */
  on(handler: (event: AnyEvent) => void): () => void {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }

  protected mount(): void {
    if (!this.#parts.sessionId) return
    void this.#load()
    this.#stopReturning = onReturn(() => {
      if (!this.#turn && Date.now() - this.#loadedAt > awayMs) void this.#load()
    })
  }

  /** Lets go of the connections. What runs, runs on; the next one who looks finds it. */
  protected override unmount(): void {
    this.#stopReturning?.()
    this.#socket?.close()
    this.#socket = undefined
    this.#turn?.leaving.abort()
    this.#turn = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#unloaded = true
    this.set({ status: 'ready', isRealTimeConnected: false })
  }

  /** Reads the history again. */
  refetchMessages = (): Promise<void> => this.#load()

  /** Says something. Resolves when the turn is over; what goes wrong is in the snapshot. */
  async sendMessage(text: string, use?: ChatUse): Promise<void> {
    const { sessionId, model } = this.#parts
    const requestId = uuid()
    const user: IMessage = { id: requestId, type: 'human', content: text, isComplete: true }
    // The same again, after a payment for example, takes the place of what could not be said.
    if (this.#unsent?.content === text)
      this.#history = this.#history.filter((one) => one !== this.#unsent)
    this.#unsent = undefined
    this.#leave()
    const turn = this.#begin({ requestId, user, isOurs: true, use })
    this.set({ sendMessageError: null, error: null, approval: null })
    this.#show({ status: 'submitted' })
    try {
      if (!sessionId) throw new OracleError('invalid_request', 'There is no session.')
      const body = {
        message: text,
        requestId,
        model: model(),
        approvals: this.approvals,
        timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        ...(await this.#pageTools()),
      }
      await this.#follow(turn, (signal) => this.#ask(`/messages/${sessionId}`, { body, signal }))
    } catch (thrown) {
      this.#fail(turn, toOracleError(thrown))
    }
  }

  /** Stops what runs, whoever began it. Does nothing when nothing does. */
  async abortStream(): Promise<void> {
    const { sessionId } = this.#parts
    const turn = this.#turn
    if (!sessionId || (!turn && !this.getSnapshot().isLoading)) return
    if (turn) turn.isStopped = true
    try {
      const requestId = turn?.isOurs ? turn.requestId : undefined
      await this.#json('/messages/abort', { body: { sessionId, requestId } })
    } catch (error) {
      this.set({ error: toOracleError(error) })
    }
    if (!turn || this.#turn !== turn) return
    // The server says how it ended; when it does not, it has ended for this page all the same.
    await pause(goodbyeMs, turn.leaving.signal)
    if (this.#turn === turn) this.#end(turn, 'aborted')
  }

  /** Answers the tool that waits for a person. */
  async answer(decision: 'approve' | 'reject' | 'edit', args?: unknown): Promise<void> {
    const { approval } = this.getSnapshot()
    if (!approval) return
    const turn = this.#begin({ requestId: uuid(), isOurs: true })
    turn.continues = true
    this.set({ approval: null, error: null })
    this.#show({ status: 'submitted' })
    try {
      await this.#follow(turn, (signal) =>
        this.#ask(`/runs/${approval.runId}/resume`, { body: { decision, args }, signal }),
      )
    } catch (thrown) {
      this.#fail(turn, toOracleError(thrown))
      this.set({ approval })
    }
  }

  // What the chat asks the oracle.

  async #ask(path: string, call?: Call): Promise<Response> {
    const { tokens, oracleDid, config } = this.#parts
    const { apiUrl } = await config()
    return askAs(tokens, oracleDid, apiUrl + path, call)
  }

  #json<T>(path: string, call: Call = {}): Promise<T> {
    return readJson<T>(call, (bounded) => this.#ask(path, bounded))
  }

  // The history, and the run that may be under way.

  #load(): Promise<void> {
    return (this.#loading ??= this.#loadNow().finally(() => (this.#loading = undefined)))
  }

  async #loadNow(): Promise<void> {
    const { sessionId, config } = this.#parts
    if (!sessionId) return
    try {
      void this.#openChannel(await config())
      void import('./turn.ts') // Here before it is needed, and not in the way of the history.
      const isFirst = this.#unloaded
      const { messages } = await this.#json<{ messages: IMessage[] }>(`/messages/${sessionId}`)
      if (!this.isMounted) return
      this.#unloaded = false
      this.#loadedAt = Date.now()
      if (!this.#turn && !isSettled(messages)) {
        const runId = (isFirst && this.#remembered()?.runId) || (await this.#openRun())
        if (!this.isMounted) return
        if (runId && !this.#turn) this.#join(runId)
      }
      this.#take(messages)
      const { error } = this.getSnapshot()
      this.#show({ isLoading: false, error: error === this.#loadError ? null : error })
    } catch (thrown) {
      this.#loadError = toOracleError(thrown)
      this.#show({ isLoading: false, error: this.#loadError })
    }
  }

  async #openRun(): Promise<string | undefined> {
    type Run = { runId: string } | null
    const { run, waiting } = await this.#json<{ run: Run; waiting?: Run }>(
      `/sessions/${this.#parts.sessionId}/run`,
    )
    return (run ?? waiting)?.runId
  }

  /** Takes the history as the server has it, without what the run under way tells itself. */
  #take(fresh: readonly IMessage[]): void {
    const turn = this.#turn
    const kept = this.#beforeRun(turn, fresh)
    if (turn) turn.user ??= fresh[kept.length]
    const { approval } = this.getSnapshot()
    const isOpen = (callId: string) => !!turn || approval?.toolCallId === callId
    const history = reconciled(this.#history, shown(kept, isOpen))
    const unsent = this.#unsent
    const isKept =
      !unsent || history.some(({ type, content }) => type === 'human' && content === unsent.content)
    this.#history = isKept ? history : [...history, unsent]
    this.#dirty = true
  }

  /** The history without what a run tells itself. */
  #beforeRun(turn: Turn | undefined, messages: readonly IMessage[]): readonly IMessage[] {
    const from = messages.findIndex(({ id }) => id === `user-${turn?.runId}`)
    return from < 0 ? messages : messages.slice(0, from)
  }

  #join(runId: string): void {
    const known = this.#remembered()
    const ours = known?.runId === runId ? known : undefined
    const turn = this.#begin({ requestId: ours?.requestId ?? runId, runId, isOurs: !!ours })
    for (const id of ours?.begun ?? []) turn.begun.add(id)
    this.#show({ status: 'streaming' })
    // What a page did before it was reloaded, nobody knows any more; it is not done twice.
    for (const id of ours?.open ?? [])
      void this.#handIn(turn, id, {
        result: null,
        error: 'The page was reloaded while it did this: the outcome is unknown.',
      })
    this.#follow(turn).catch((thrown) => {
      const error = toOracleError(thrown)
      // Purged, or another's: the history has what is left of it.
      if (error.code !== 'not_found') return this.#fail(turn, error)
      this.#end(turn, null)
      void this.#load()
    })
  }

  async #openChannel({ wsUrl }: OracleConfig): Promise<void> {
    if (!this.getSnapshot().isConfigReady) this.set({ isConfigReady: true })
    const { EventSocket } = await import('./socket.ts')
    if (!this.isMounted || this.#socket) return
    const { oracleDid, sessionId, tokens, timing } = this.#parts
    const socket = new EventSocket({
      wsUrl,
      oracleDid,
      sessionId,
      tokens,
      timing,
      onConnection: (isRealTimeConnected) => {
        if (this.#socket === socket) this.set({ isRealTimeConnected })
      },
      onEvent: (event) => this.#pushed(event),
    })
    this.#socket = socket
  }

  /** An event of the channel. The run that is read here tells its own. */
  async #pushed(event: AnyEvent): Promise<void> {
    if (event.eventName === 'message_cache_invalidation') return void this.#load()
    const { requestId } = event.payload as { requestId?: string }
    if (event.eventName === 'browser_tool_call' && requestId === this.#turn?.requestId)
      return this.#runPageTool(this.#turn!, event.payload)
    // Another tab or device says something: this one follows. A history that is being read may lack the end.
    if (event.eventName === 'done') await this.#loading
    const { run } = this.getSnapshot()
    if (!this.#turn && requestId && requestId !== run.requestId) void this.#load()
  }

  // A turn, from its begin to its end.

  #begin(given: Pick<Turn, 'requestId' | 'isOurs'> & Partial<Turn>): Turn {
    const turn: Turn = {
      begun: new Set(),
      open: new Set(),
      leaving: new AbortController(),
      ...given,
    }
    this.#turn = turn
    const { requestId, runId = null } = turn
    this.set({ run: { ...idle, requestId, runId } })
    return turn
  }

  async #follow(turn: Turn, begin?: (signal: AbortSignal) => Promise<Response>): Promise<void> {
    const { timing } = this.#parts
    const { follow, LiveReply } = await import('./turn.ts')
    turn.reply ??= new LiveReply(turn.requestId)
    return follow({
      runId: turn.runId,
      signal: turn.leaving.signal,
      timing,
      begin: begin ?? (() => Promise.reject(new Error('The run is known.'))),
      join: (runId, after, signal) =>
        this.#ask(`/runs/${runId}`, { headers: { 'last-event-id': String(after) }, signal }),
      onRun: (runId) => {
        if (turn.runId === runId || this.#turn !== turn) return
        turn.runId = runId
        // The history may have come between the message and the name of its run.
        this.#history = this.#beforeRun(turn, this.#history)
        this.#dirty = true
        this.#remember(turn)
        this.#run({ runId })
      },
      onConnection: (connected) => {
        if (this.#turn === turn && this.getSnapshot().run.reconnecting === connected)
          this.#run({ reconnecting: !connected })
      },
      onEvent: (event) => {
        if (this.#turn === turn) this.#hear(turn, event)
      },
    })
  }

  #hear(turn: Turn, event: AnyEvent): void {
    for (const handler of [...this.#handlers]) handler(event)
    const { eventName, payload } = event
    if (eventName === 'run') {
      turn.requestId = payload.requestId
      if (payload.continues) turn.continues = true
      if (payload.resumed) this.#run({ resumed: this.getSnapshot().run.resumed + 1 })
    } else if (eventName === 'browser_tool_call') this.#runPageTool(turn, payload)
    else if (eventName === 'action_call' && payload.status === 'isRunning')
      this.#runPageTool(turn, payload, true)
    else if (eventName === 'delegation_required') void this.#authorise()
    else if (eventName === 'message_cache_invalidation') void this.#load()
    else if (eventName === 'interrupt') this.set({ approval: payload })
    else if (eventName === 'error') turn.fault = payload
    if (
      (eventName === 'tool_call' || eventName === 'action_call') &&
      payload.status === 'error' &&
      payload.error !== undefined
    )
      this.#toolFailed(turn, payload)
    const isKnown = turn.continues && this.#inHistory(turn, event)
    const changed = !isKnown && turn.reply!.apply(event)
    if (eventName === 'done') return this.#end(turn, payload.status)
    if (!changed && !isKnown) return
    this.#dirty = true
    if (this.getSnapshot().status === 'submitted') this.#show({ status: 'streaming' })
    else this.#touch()
  }

  /** A run that goes on after an approval ends a call that stands in the history. */
  #inHistory(turn: Turn, event: AnyEvent): boolean {
    const { eventName, payload } = event
    if (eventName !== 'tool_call' || !turn.reply!.isEmpty) return false
    const { toolCallId = payload.eventId, status, output, error } = payload
    const at = this.#history.findLastIndex(({ toolCalls }) =>
      toolCalls?.some(({ id }) => id === toolCallId),
    )
    if (at < 0) return false
    const message = this.#history[at]!
    const toolCalls = message.toolCalls!.map((call) =>
      call.id === toolCallId
        ? { ...call, status, output, error: error as string | undefined }
        : call,
    )
    // What stands behind it was said by this run, which says it again.
    this.#history = [...this.#history.slice(0, at), { ...message, toolCalls }]
    return true
  }

  #end(turn: Turn, ended: ChatRunState['ended']): void {
    if (this.#turn !== turn) return
    const { fault } = turn
    turn.leaving.abort()
    if (ended !== 'finished' && ended !== 'waiting') turn.reply?.cutShort()
    if (ended !== 'waiting') remember(this.#parts.storage, this.#key)
    this.#settle(turn)
    this.#run({ ended, reconnecting: false })
    if (ended === 'failed') {
      const { error = 'The oracle could not answer.', code, statusCode, claims } = fault ?? {}
      const kind = code === 'PAYMENT_REQUIRED' ? 'payment_required' : 'run_failed'
      const facts = {
        status: statusCode,
        serverCode: code,
        details: fault,
        claimIds: claimIdsOf(claims),
      }
      return this.#refused(turn, new OracleError(kind, error, facts))
    }
    this.#show({ status: 'ready' })
    // Another tab said something newer: go on with that.
    if (ended === 'interrupted' && this.isMounted) void this.#load()
  }

  /** A turn that could not begin, or whose stream cannot be had any more. */
  #fail(turn: Turn, error: OracleError): void {
    if (this.#turn !== turn) return
    if (turn.isStopped) return this.#end(turn, 'aborted')
    turn.leaving.abort()
    turn.reply?.cutShort()
    this.#settle(turn)
    if (!turn.runId) this.#unsent = turn.user
    this.#run({ ended: turn.runId ? 'disconnected' : 'failed', reconnecting: false })
    this.#refused(turn, error)
    if (turn.runId && this.isMounted) void this.#load()
  }

  #refused(turn: Turn, error: OracleError): void {
    if (error.code !== 'payment_required')
      return this.#show({ status: 'error', sendMessageError: error, error })
    this.#unsent = turn.user
    this.#show({ status: 'ready', sendMessageError: error })
    const use = turn.use ?? [...this.#uses][0]?.()
    use?.onPaymentRequiredError?.([...error.claimIds])
  }

  /** What a turn said becomes part of the history. */
  #settle(turn: Turn): void {
    this.#turn = undefined
    this.#history = this.#with(turn)
    this.#dirty = true
  }

  /** Stops reading; a newer message ends the run on the server. */
  #leave(): void {
    const turn = this.#turn
    if (!turn) return
    turn.leaving.abort()
    turn.reply?.cutShort()
    this.#settle(turn)
  }

  async #authorise(): Promise<void> {
    const { tokens, oracleDid } = this.#parts
    try {
      tokens.drop(oracleDid)
      const raw = await tokens.get('delegation', oracleDid)
      await this.#json('/delegation', { body: { raw } })
    } catch (error) {
      this.#show({ error: toOracleError(error) })
    }
  }

  // Tools that run in this page.

  /** What the oracle is told of them. Most chats have none, and load no code for them. */
  async #pageTools() {
    const tools = this.#browserTools()
    const actions = [...this.#parts.actions.values()]
    if (actions.length + Object.keys(tools).length === 0) return {}
    return (await import('./page-tools.ts')).announced(tools, actions)
  }

  #browserTools(): IBrowserTools {
    return Object.assign({}, ...[...this.#uses].map((use) => use().browserTools))
  }

  #runPageTool(
    turn: Turn,
    { toolCallId, toolName, args }: { toolCallId: string; toolName: string; args: unknown },
    isAction = false,
  ): void {
    if (!turn.isOurs || turn.begun.has(toolCallId)) return
    turn.begun.add(toolCallId)
    turn.open.add(toolCallId)
    this.#remember(turn)
    void import('./page-tools.ts')
      .then(({ carriedOut }) =>
        carriedOut(isAction ? this.#parts.actions : this.#browserTools(), toolName, args),
      )
      .then((outcome) => this.#handIn(turn, toolCallId, outcome))
  }

  /** Gives the server what came of a call: on the channel where there is one, and surely over HTTP. */
  async #handIn(turn: Turn, toolCallId: string, outcome: Outcome): Promise<void> {
    const { sessionId, timing } = this.#parts
    const { signal } = turn.leaving
    this.#socket?.send({ type: 'tool_result', toolCallId, sessionId, ...outcome })
    const body = { toolCallId, ...outcome }
    const { untilTaken } = await import('./page-tools.ts')
    await untilTaken(
      () => this.#json(`/runs/${turn.runId}/tool-results`, { body, signal }),
      signal,
      timing,
    )
    turn.open.delete(toolCallId)
    this.#remember(turn)
  }

  #toolFailed(
    turn: Turn,
    payload: { toolName: string; error?: unknown; toolCallId?: string },
  ): void {
    const isPageTool = turn.begun.has(payload.toolCallId ?? '')
    const { message = payload.error } = Object(payload.error) as { message?: unknown }
    const text = `${payload.toolName}: ${String(message)}`
    this.#run({
      toolError: new OracleError(isPageTool ? 'browser_tool_failed' : 'tool_failed', text),
    })
  }

  #remembered() {
    return remembered(this.#parts.storage, this.#key)
  }

  #remember(turn: Turn): void {
    const { runId, requestId, isOurs } = turn
    if (!isOurs || !runId || this.#turn !== turn) return
    const run = { runId, requestId, begun: [...turn.begun], open: [...turn.open] }
    remember(this.#parts.storage, this.#key, run)
  }

  // What is shown, and when.

  #run(part: Partial<ChatRunState>): void {
    this.set({ run: { ...this.getSnapshot().run, ...part } })
  }

  /** Something streamed: the first change at once, then one publish in a while, and always the last. */
  #touch(): void {
    if ([...this.#uses].some((use) => use().streamingMode === 'immediate')) return this.#show()
    if (this.#timer === undefined) this.#show()
  }

  #show(part: Partial<ChatSnapshot> = {}): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#dirty) this.#show()
    }, this.#parts.timing.flushMs)
    this.set(this.#dirty ? { ...part, messages: this.#with(this.#turn) } : part)
    this.#dirty = false
  }

  /** The history, and behind it what a turn says. */
  #with(turn: Turn | undefined): readonly IMessage[] {
    if (!turn) return this.#history
    const { user, reply } = turn
    return [...this.#history, ...(user ? [user] : []), ...(reply?.messages ?? [])]
  }
}

/** Whether nothing can be under way: nobody has spoken, or the oracle spoke last and called nothing. */
function isSettled(messages: readonly IMessage[]): boolean {
  const last = messages.at(-1)
  return !last || (last.type === 'ai' && !last.toolCalls?.length)
}

/** A page that came by plain HTTP has no `randomUUID`, but its objects have such names. */
const uuid = (): string => crypto.randomUUID?.() ?? URL.createObjectURL(new Blob()).slice(-36)
