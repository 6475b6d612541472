import type { Message, ToolCall } from '../../plugin.ts'
import type { Journal, JournalEntry, RenderedComponent, WaitingCall } from '../runs/run.ts'

/** What a step changed beside its messages. Asked once for every entry that is written. */
export type TakeChanges = () => Promise<Pick<JournalEntry, 'loaded' | 'states'>>

/** The messages of one loop, and how they reach the journal. A sub-agent's loop has a log of its own. */
export class StepLog {
  readonly messages: Message[] = []
  readonly #journal: Journal
  readonly #within: string | undefined
  readonly #takeChanges: TakeChanges
  #unwritten: Message[] = []
  #components: RenderedComponent[] = []
  #written: Promise<void> = Promise.resolve()

  constructor(
    journal: Journal,
    past: readonly JournalEntry[],
    takeChanges: TakeChanges,
    within?: string,
  ) {
    this.#journal = journal
    this.#within = within
    this.#takeChanges = takeChanges
    for (const entry of past) if (entry.within === within) this.messages.push(...entry.messages)
  }

  /** The calls of the newest answer that have no result yet. */
  get openCalls(): readonly ToolCall[] {
    const answered = new Set<string>()
    for (let i = this.messages.length - 1; i >= 0; i--) {
      const message = this.messages[i]!
      if (message.role === 'tool') answered.add(message.toolCallId)
      if (message.role === 'assistant')
        return (message.toolCalls ?? []).filter(({ id }) => !answered.has(id))
    }
    return []
  }

  /** Whether the model said anything so far, in whatever process. */
  get spoke(): boolean {
    return this.messages.some(({ role, content }) => role === 'assistant' && content !== '')
  }

  get modelCalls(): number {
    let count = 0
    for (const { role } of this.messages) if (role === 'assistant') count++
    return count
  }

  add(...messages: readonly Message[]): void {
    this.messages.push(...messages)
    this.#unwritten.push(...messages)
  }

  rendered(component: RenderedComponent): void {
    this.#components.push(component)
  }

  /** Resolves when everything so far is in the journal. */
  recorded(): Promise<void> {
    return this.#unwritten.length > 0 ? this.write() : this.#written
  }

  /** Writes what is not written yet as one step. After one that failed, no other is tried. */
  write(more: { readonly partial?: true; readonly waits?: WaitingCall } = {}): Promise<void> {
    const messages = this.#unwritten
    const components = this.#components
    this.#unwritten = []
    this.#components = []
    // Taken now: what the next step changes belongs to its own entry, however long the disk takes.
    const changes = this.#takeChanges()
    changes.catch(() => undefined)
    this.#written = this.#written.then(async () => {
      const entry = {
        messages,
        ...(await changes),
        ...(components.length > 0 && { components }),
        ...(this.#within !== undefined && { within: this.#within }),
        ...more,
      }
      await this.#journal.append(entry)
    })
    // Who waits for it hears of a failure; when nobody does yet, the next write will.
    this.#written.catch(() => undefined)
    return this.#written
  }
}
