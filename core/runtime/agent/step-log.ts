import type { Message, RunUsage, ToolCall } from '../../plugin.ts'
import { asSent } from './turn/consent.ts'
import type { Journal, JournalEntry, RenderedComponent, StepTiming, Summary } from '../turns/run.ts'

/** What else an entry says of a step: that the step is incomplete, or that the run waits in the step. */
type More = Pick<JournalEntry, 'partial' | 'waits' | 'summary'>

type Said = Extract<Message, { role: 'assistant' }>

/** Gives what a step changed beside its messages. The log calls it once for every entry that it writes. */
export type TakeChanges = () => Promise<Pick<JournalEntry, 'loaded' | 'states'>>

/** The messages of one loop. The log also writes them to the journal. A sub-agent's loop has a log of its own. */
export class StepLog {
  readonly messages: Message[] = []
  /** The same messages in the form in which a model reads them. */
  readonly sent: Message[] = []
  /** The newest summary that an earlier process has made for this loop. */
  readonly summary: Summary | undefined
  readonly #journal: Journal
  readonly #within: string | undefined
  readonly #takeChanges: TakeChanges
  #unwritten: Message[] = []
  #components: RenderedComponent[] = []
  /** What calls of models cost that no message tells of. */
  #spent: RunUsage[] = []
  /** How long what led to unwritten messages took, and calls that failed. */
  #timings: Map<string, StepTiming> | undefined
  #failures: StepTiming[] = []
  /** Settles when the journal has taken over the newest entry. Entries go to the journal one after the other. */
  #given: Promise<unknown> = Promise.resolve()
  /** Settles when all entries so far are written. */
  #written: Promise<unknown> = Promise.resolve()
  /** How many entries with the urgency `soon` are not written yet. */
  #waiting = 0
  #failure: { readonly error: unknown } | undefined
  #hasPassedOver = false

  constructor(
    journal: Journal,
    past: readonly JournalEntry[],
    takeChanges: TakeChanges,
    within?: string,
  ) {
    this.#journal = journal
    this.#within = within
    this.#takeChanges = takeChanges
    const own = past.filter((entry) => entry.within === within)
    for (const { messages } of own) this.#keep(messages)
    this.summary = own.findLast(({ summary }) => summary)?.summary
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

  /** Whether the model said anything so far, in this process or an earlier one. */
  get spoke(): boolean {
    return this.messages.some(({ role, content }) => role === 'assistant' && content !== '')
  }

  /** The id of the model that gave the newest answer. */
  get answeredBy(): string | undefined {
    const newest = this.messages.findLast(({ role }) => role === 'assistant')
    return newest?.role === 'assistant' ? newest.model : undefined
  }

  /** How many answers the model has given. */
  get modelCalls(): number {
    let count = 0
    for (const { role } of this.messages) if (role === 'assistant') count++
    return count
  }

  /** Adds messages, which the next entry takes to the journal. */
  add(...messages: readonly Message[]): void {
    this.#keep(messages)
    this.#unwritten.push(...messages)
  }

  #keep(messages: readonly Message[]): void {
    for (const message of messages) {
      this.messages.push(message)
      this.sent.push(asSent(message))
    }
  }

  /** Notes a component that a handler rendered, for the next entry. A later component of the same event id replaces it. */
  rendered(component: RenderedComponent): void {
    const before = this.#components.findIndex(({ eventId }) => eventId === component.eventId)
    if (before < 0) this.#components.push(component)
    else this.#components[before] = component
  }

  /** Notes for the next entry what calls of models cost whose words no message keeps. */
  spend(usage: readonly RunUsage[]): void {
    this.#spent.push(...usage)
  }

  /** Adds a message of which it is known how long it took. */
  addTimed(message: Exclude<Message, { role: 'system' }>, timing: StepTiming | undefined): void {
    if (timing) (this.#timings ??= new Map()).set(message.id, timing)
    this.add(message)
  }

  /** Notes for the next entry a call of a model that failed and left no message. */
  failed(timing: StepTiming | undefined): void {
    if (timing) this.#failures.push(timing)
  }

  /**
   * Leaves out an answer without a word, of which only the cost is noted: asked once more, most models speak. False for the
   * second such answer of a loop, and for one that had no room for a word.
   */
  passesOver({ usage, ended }: Said, timing: StepTiming | undefined): boolean {
    if (this.#hasPassedOver || ended === 'length') return false
    this.#hasPassedOver = true
    if (usage) this.spend([usage])
    this.failed(timing)
    return true
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

  /** Resolves when what every step changed is kept and the journal has every entry, if not yet on the disk. Throws what kept one back. */
  async settled(): Promise<void> {
    await this.#given
  }

  /** Gives the unwritten messages to the journal as one step, which the journal writes together with its next write. */
  writeSoon(more: More = {}): void {
    // A caller that depends on the step waits for `recorded`. A failure also shows when the run ends.
    void this.#write(more, 'soon')
  }

  /** Writes the unwritten messages as one step. After a write that failed, every later write fails with the same error. */
  async write(more: More = {}): Promise<void> {
    await this.#write(more, 'now')
  }

  #write(more: More, urgency: 'now' | 'soon'): Promise<unknown> {
    const messages = this.#unwritten
    const components = this.#components
    const usage = this.#spent
    const timings = this.#timings
    const failures = this.#failures
    this.#timings = undefined
    this.#failures = []
    this.#unwritten = []
    this.#components = []
    this.#spent = []
    // The log takes the changes now: the disk may be slow, and what the next step changes belongs to the next entry.
    const changes = this.#takeChanges()
    changes.catch(() => undefined)
    const given = this.#given.then(async () => {
      if (this.#failure) throw this.#failure.error
      const entry = {
        messages,
        ...(await changes),
        ...(components.length > 0 && { components }),
        ...(usage.length > 0 && { usage }),
        ...(timings && { timings }),
        ...(failures.length > 0 && { failures }),
        ...(this.#within !== undefined && { within: this.#within }),
        ...more,
      }
      // The promise stands in an object, so that `given` does not wait for it and the next entry can follow at once.
      return { written: this.#journal.append(entry, urgency) }
    })
    this.#given = given
    const written = given.then((append) => append.written)
    const waits = urgency === 'soon' ? 1 : 0
    this.#waiting += waits
    written
      .catch((error: unknown) => (this.#failure ??= { error }))
      .finally(() => (this.#waiting -= waits))
    // A caller that waits gets the failure. When no caller waits, the next write fails with it.
    this.#written = Promise.all([this.#written, written])
    this.#written.catch(() => undefined)
    return this.#written
  }
}
