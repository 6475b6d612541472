import type { HistoryPage } from '../../later/history.ts'
import type { EventSocket } from '../../later/socket.ts'
import { OracleError, toOracleError } from '../error.ts'
import type { AnyEvent } from '../events.ts'
import type { ChatUse } from '../page.ts'
import type { Attachment, IMessage } from '../records.ts'
import { onReturn, pause } from '../timing.ts'
import { ChatTurns } from './turns.ts'

/** How long Stop waits for the server to say how the run ended before the chat leaves the stream. */
const goodbyeMs = 2_000
/** After so long a page that comes back reads the history again. */
const awayMs = 10_000

/** One session as one user sees it in one tab. React reads it; it knows nothing of React. */
export class Chat extends ChatTurns {
  /** Whether a component shows what waits for the user. Once set, this stays: the component comes back with the page. */
  declare approvals?: boolean
  /** How many of the newest messages are read at first, or all. What shows older ones as its reader gets there says so. */
  pages = this.parts.history
  #loading: Promise<void> | undefined
  #socket: EventSocket | undefined
  #stopReturning: (() => void) | undefined
  #loadedAt = 0
  /** What is read of the history, and how far it goes; undefined until it is. */
  #page: HistoryPage | undefined
  #loadError: OracleError | undefined

  /** The session whose messages these are. */
  get sessionId(): string {
    return this.parts.sessionId
  }

  protected mount(): void {
    if (!this.sessionId) return
    void this.load()
    this.#stopReturning = onReturn(() => {
      if (!this.turn && Date.now() - this.#loadedAt > awayMs) void this.load()
    })
  }

  /** Lets go of the connections. The run goes on, and the next component that looks at the chat finds the run. */
  protected override unmount(): void {
    this.#stopReturning?.()
    this.#socket?.close()
    this.#socket = undefined
    this.turn?.leave('finished')
    this.turn = undefined
    this.#page = undefined
    super.unmount()
  }

  /** Reads the history again. */
  refetchMessages = (): Promise<void> => this.load()

  /** Says something. Resolves when the turn is over; what goes wrong is in the snapshot. */
  async sendMessage(
    text: string,
    use?: ChatUse,
    more?: { readonly attachments?: readonly Attachment[]; readonly requestId?: string },
  ): Promise<void> {
    const { sessionId, model } = this.parts
    const requestId = more?.requestId ?? uuid()
    const user: IMessage = {
      id: requestId,
      type: 'human',
      content: text,
      isComplete: true,
      ...more,
    }
    this.history.dropUnsent(text)
    this.leave()
    const turn = this.begin({ requestId, user, isOurs: true, use, once: more?.requestId })
    this.history.cut(turn)
    this.changed()
    this.show({ status: 'submitted', sendMessageError: null, error: null, approval: null })
    try {
      if (!sessionId) throw new OracleError('invalid_request', 'There is no session.')
      const body = {
        message: text,
        requestId,
        model: model(),
        approvals: this.approvals,
        ...more,
        timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        ...(await this.#announced()),
      }
      await this.follow(turn, (signal) => this.ask(`/messages/${sessionId}`, { body, signal }))
    } catch (thrown) {
      this.fail(turn, toOracleError(thrown))
    }
  }

  /** What the oracle reads of the page's tools and actions. */
  async #announced() {
    const tools = Object.keys(this.lent('browserTools')).length + this.parts.actions.size
    return tools ? (await this.pageTools).announced() : {}
  }

  /** Stops the run under way, whoever began the run. Does nothing when there is none. */
  async abortStream(): Promise<void> {
    const { sessionId, turn } = this
    if (!sessionId || (!turn && !this.getSnapshot().isLoading)) return
    if (turn) turn.isStopped = true
    try {
      const requestId = turn?.isOurs ? turn.requestId : undefined
      await this.json('/messages/abort', { body: { sessionId, requestId } })
    } catch (error) {
      this.set({ error: toOracleError(error) })
    }
    if (!turn || this.turn !== turn) return
    // The server says how the run ended. When the server does not, the run has ended for this page all the same.
    await pause(goodbyeMs, turn.signal)
    this.end(turn, 'aborted')
  }

  /** Answers the tool that waits for a person. */
  async answer(decision: 'approve' | 'reject' | 'edit', args?: unknown): Promise<void> {
    const { approval } = this.getSnapshot()
    if (!approval) return
    const turn = this.begin({ requestId: uuid(), isOurs: true, continues: true })
    this.show({ status: 'submitted', sendMessageError: null, error: null, approval: null })
    try {
      await this.follow(turn, (signal) =>
        this.ask(`/runs/${approval.runId}/resume`, { body: { decision, args }, signal }),
      )
    } catch (thrown) {
      this.fail(turn, toOracleError(thrown))
      this.set({ approval })
    }
  }

  // The history, and the run that may be under way.

  protected load(isOpen?: boolean): Promise<void> {
    return (this.#loading ??= this.#loadNow(isOpen).finally(() => (this.#loading = undefined)))
  }

  /** With `isOpen` a run is known to be under way, of which the history may have nothing yet. */
  async #loadNow(isOpen?: boolean): Promise<void> {
    const { sessionId, config } = this.parts
    if (!sessionId) return
    const known = this.history.messages
    try {
      const { wsUrl } = await config()
      this.set({ isConfigReady: true })
      const before = this.#page
      const [{ taken, whole }, newest] = await Promise.all([reading(), this.#read()])
      if (!this.isMounted) return
      // The channel tells what happens from here on: what a run says while that connects would be in neither.
      void this.#openChannel(wsUrl, newest)
      this.#loadedAt = Date.now()
      const last = newest.messages.at(-1)
      // A run may be under way where a person spoke last, or where the last answer calls something.
      const runId =
        !this.turn &&
        (isOpen || last?.type === 'human' || last?.toolCalls?.length) &&
        ((!before && this.memory.read()?.runId) || (await this.#openRun()))
      const isUnderway = this.turn || runId
      const page = await whole(newest, before, isUnderway, (cursor) =>
        this.#read(`&before=${cursor}`),
      )
      if (!this.isMounted) return
      // A turn has come to its end meanwhile: what was read may lack that end.
      if (known !== this.history.messages) return this.#loadNow()
      this.#page = page
      if (runId && !this.turn) this.#join(runId)
      const { approval, error } = this.getSnapshot()
      this.history.messages = taken(this.history, page.messages, this.turn, approval?.toolCallId)
      this.changed()
      this.show({
        isLoading: false,
        error: error === this.#loadError ? null : error,
        hasOlder: !!page.prevCursor,
      })
    } catch (thrown) {
      const error = (this.#loadError = toOracleError(thrown))
      this.show({ isLoading: false, error })
    }
  }

  /** Reads older messages, where the history is read by pages. Rejects when they cannot be read. */
  fetchOlder = async (): Promise<void> => {
    await this.#loading
    const page = this.#page
    if (!page?.prevCursor) return
    const [{ joined, shown }, older] = await Promise.all([
      reading(),
      this.#read(`&before=${page.prevCursor}`),
    ])
    if (page !== this.#page) return
    this.#page = joined(older, page)
    this.history.messages = [...shown(older.messages), ...this.history.messages]
    this.changed()
    this.show({ hasOlder: !!older.prevCursor })
  }

  /** The newest messages: as many as the chat has, and some more. Or those `before` a cursor. */
  #read(before = ''): Promise<HistoryPage> {
    const { sessionId, pages = 'all' } = this
    if (pages === 'all') return this.json(`/messages/${sessionId}`)
    const { length } = this.history.messages
    const limit = before || !length ? pages : Math.max(pages, length + 20)
    return this.json(`/sessions/${sessionId}/messages?limit=${Math.min(200, limit)}${before}`)
  }

  async #openRun(): Promise<string | undefined> {
    type Run = { runId: string } | null
    const { run, waiting } = await this.json<{ run: Run; waiting?: Run }>(
      `/sessions/${this.sessionId}/run`,
    )
    return (run ?? waiting)?.runId
  }

  #join(runId: string): void {
    const known = this.memory.read()
    const ours = known?.runId === runId ? known : undefined
    const { requestId = runId, begun, open = [] } = ours ?? {}
    const turn = this.begin({ requestId, runId, isOurs: !!ours, begun })
    this.show({ status: 'streaming' })
    // What a page did before its reload is not known any more, so the page does not repeat a call that was open.
    for (const callId of open)
      void this.pageTools.then((tools) => tools.handInUnknown(turn, callId))
    this.follow(turn).catch((thrown) => {
      const error = toOracleError(thrown)
      if (error.code !== 'not_found') return this.fail(turn, error)
      // The server purged the run, or it is another user's: the history has what is left of it.
      this.end(turn, null)
      void this.load()
    })
  }

  // The event channel.

  async #openChannel(wsUrl: string, first: HistoryPage): Promise<void> {
    const { EventSocket } = await import('../../later/socket.ts')
    if (!this.isMounted || this.#socket) return
    const socket = new EventSocket({
      ...this.parts,
      wsUrl,
      cursor: () => (this.#page ?? first).cursor ?? '0',
      onConnection: (isRealTimeConnected) => {
        if (this.#socket === socket) this.set({ isRealTimeConnected })
      },
      onEvent: (event) => this.#pushed(event),
    })
    this.#socket = socket
  }

  protected send(frame: unknown): void {
    this.#socket?.send(frame)
  }

  /** Takes an event of the channel. The run that the chat reads has its events from its own stream. */
  async #pushed(event: AnyEvent): Promise<void> {
    const { turn } = this
    const { eventName, payload } = event
    const isStale = eventName === 'message_cache_invalidation'
    const { requestId } = payload as { requestId?: string }
    if (eventName === 'browser_tool_call' && turn && requestId === turn.requestId)
      return this.runPageTool(turn, payload)
    // A history that is being read may lack what is told here.
    if (isStale || eventName === 'done') await this.#loading
    // Words that a payment keeps from being said stand here alone until they are said again.
    if (isStale)
      return this.getSnapshot().status === 'error' || !this.history.unsent ? this.load() : undefined
    // Another tab or device says something, and this tab follows.
    if (!this.turn && requestId && requestId !== this.getSnapshot().run.requestId)
      void this.load(true)
  }
}

/** The code that reads a history and a run. */
const reading = () => import('../../later/reading.ts')

/** A page that came by plain HTTP has no `randomUUID`, but its objects have such names. */
const uuid = (): string => crypto.randomUUID?.() ?? URL.createObjectURL(new Blob()).slice(-36)
