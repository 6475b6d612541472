import type { Message, ToolCall } from '../../plugin.ts'
import type { Journal, JournalEntry, RenderedComponent } from '../turns/run.ts'

/** What else is told of a step: that it is incomplete, or that the run waits in it. */
type More = Pick<JournalEntry, 'partial' | 'waits'>

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
  /** Entries are given to the journal one after the other; the second promise settles when they are written. */
  #given: Promise<unknown> = Promise.resolve()
  #written: Promise<unknown> = Promise.resolve()
  /** How many entries that may come `soon` are not written yet. */
  #waiting = 0
  #failure: { readonly error: unknown } | undefined

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
    const before = this.#components.findIndex(({ eventId }) => eventId === component.eventId)
    if (before < 0) this.#components.push(component)
    else this.#components[before] = component
  }

  /** Resolves when everything so far is in the journal. */
  async recorded(): Promise<void> {
    if (this.#unwritten.length > 0) void this.#write({}, 'now')
    else if (this.#waiting > 0) {
      await this.#given
      await this.#journal.flush()
    }
    await this.#written
  }

  /** Writes what is not written yet as one step, with whatever is written next. */
  writeSoon(more: More = {}): void {
    // A caller that depends on the step waits for `recorded`; the end of the run tells of a failure, too.
    void this.#write(more, 'soon')
  }

  /** Writes what is not written yet as one step. After one that failed, no other is tried. */
  async write(more: More = {}): Promise<void> {
    await this.#write(more, 'now')
  }

  #write(more: More, urgency: 'now' | 'soon'): Promise<unknown> {
    const messages = this.#unwritten
    const components = this.#components
    this.#unwritten = []
    this.#components = []
    // The changes are taken now: what the next step changes belongs to the next entry, however long the disk takes.
    const changes = this.#takeChanges()
    changes.catch(() => undefined)
    const given = this.#given.then(async () => {
      if (this.#failure) throw this.#failure.error
      const entry = {
        messages,
        ...(await changes),
        ...(components.length > 0 && { components }),
        ...(this.#within !== undefined && { within: this.#within }),
        ...more,
      }
      // In an object, so that the next entry does not wait until this one is written.
      return { written: this.#journal.append(entry, urgency) }
    })
    this.#given = given
    const written = given.then((append) => append.written)
    const waits = urgency === 'soon' ? 1 : 0
    this.#waiting += waits
    written
      .catch((error: unknown) => (this.#failure ??= { error }))
      .finally(() => (this.#waiting -= waits))
    // A caller that waits hears of a failure; without one, the next write fails.
    this.#written = Promise.all([this.#written, written])
    this.#written.catch(() => undefined)
    return this.#written
  }
}
