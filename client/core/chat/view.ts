import type { OracleError } from '../error.ts'
import type { AnyEvent } from '../events.ts'
import type { ChatUse, UIComponents } from '../page.ts'
import type { ChatRunState, ChatStatus, IMessage, PendingApproval } from '../records.ts'
import { Store } from '../store.ts'

/** What a page sees of a chat. */
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
  /** There are older messages that `fetchOlder` reads. */
  readonly hasOlder: boolean
}

/** A run of which nothing is known yet. */
export const idle: ChatRunState = {
  runId: null,
  requestId: null,
  reconnecting: false,
  resumed: 0,
  ended: null,
  toolError: null,
}

/** What a chat shows, when it shows it, and the components that look. */
export abstract class ChatView extends Store<ChatSnapshot> {
  readonly #flushMs: number
  readonly #uses = new Set<() => ChatUse>()
  readonly #handlers = new Set<(event: AnyEvent) => void>()
  #timer: ReturnType<typeof setTimeout> | undefined
  #isStale = false

  constructor(isLoading: boolean, flushMs: number) {
    super({
      messages: [],
      status: 'ready',
      isLoading,
      error: null,
      sendMessageError: null,
      isRealTimeConnected: false,
      isConfigReady: false,
      run: idle,
      approval: null,
      hasOlder: false,
    })
    this.#flushMs = flushMs
  }

  /** The messages as they are now; the snapshot takes them when it is published. */
  protected abstract readonly messages: readonly IMessage[]

  /** Lends the chat what a component has; returns how to take it back. */
  use(use: () => ChatUse): () => void {
    this.#uses.add(use)
    return () => this.#uses.delete(use)
  }

  /** The components that the page lends for rendering. */
  get components(): UIComponents {
    return this.lent('uiComponents')
  }

  /** Hears every event of the chat; returns how to stop. */
  on(handler: (event: AnyEvent) => void): () => void {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }

  /** What each component lends now, the earliest first. */
  protected get uses(): ChatUse[] {
    return [...this.#uses].map((use) => use())
  }

  /** The tools, or the components, of all who look. */
  protected lent<Kind extends 'browserTools' | 'uiComponents'>(
    kind: Kind,
  ): NonNullable<ChatUse[Kind]> {
    return Object.assign({}, ...this.uses.map((use) => use[kind]))
  }

  protected tell(event: AnyEvent): void {
    for (const handler of [...this.#handlers]) handler(event)
  }

  /** Notes that the messages are others than those of the snapshot. */
  protected changed(): void {
    this.#isStale = true
  }

  /** Publishes what streamed: the first change at once, then one publish in `flushMs`, and always the last. */
  protected touch(): void {
    const isImmediate = this.uses.some(({ streamingMode }) => streamingMode === 'immediate')
    if (isImmediate || this.#timer === undefined) this.show()
  }

  /** Publishes, together with messages that have changed. */
  protected show(part: Partial<ChatSnapshot> = {}): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      if (this.#isStale) this.show()
    }, this.#flushMs)
    this.set(this.#isStale ? { ...part, messages: this.messages } : part)
    this.#isStale = false
  }

  /** Publishes something about the run under way. */
  protected showRun(part: Partial<ChatRunState>): void {
    this.set({ run: { ...this.getSnapshot().run, ...part } })
  }

  protected override unmount(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.set({ status: 'ready', isRealTimeConnected: false })
  }
}
