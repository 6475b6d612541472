import type { OracleClient } from '../core/client.ts'
import { type OracleError, toOracleError } from '../core/error.ts'
import type { Attachment, IChatSession, Overrides } from '../core/records.ts'
import { Store } from '../core/store.ts'
import { onReturn } from '../core/timing.ts'
import { tellRefused } from './not-kept.tsx'

/** Words on their way to the server, which outlive a reload and the end of the network. */
export interface OutboxEntry {
  /** The request id of the message: whatever is sent twice under it is said once. */
  readonly id: string
  /** The conversation; one that is still to be made has a name with a colon. */
  readonly sessionId: string
  readonly text: string
  readonly attachments?: readonly Attachment[]
  /** Somebody changes the words: nobody sends them before this time, in milliseconds since 1970. */
  readonly heldUntil?: number
}

/** How the words of one conversation fare. */
export interface OutboxLane {
  /** The entry that is sent just now, or answered. */
  readonly sending?: string
  /** When the outbox tries again by itself, in milliseconds since 1970. */
  readonly retryAt?: number
  /** Why the first of the entries is not taken, where the network is not the reason. */
  readonly fault?: OracleError
}

/** What a page sees of an outbox. */
export interface OutboxSnapshot {
  readonly entries: readonly OutboxEntry[]
  /** How the words fare that are on their way, by their conversation: none waits for the answer of another. */
  readonly lanes: ReadonlyMap<string, OutboxLane>
  /** Sessions that were made for words that had none, by the name that stood for them. */
  readonly made: ReadonlyMap<string, string>
  /** Entries that were taken back: a chat may still show them. */
  readonly cancelled: ReadonlySet<string>
  /** How many turns have ended that this outbox began. */
  readonly turns: number
}

const mostPerSession = 20
/** How long words are held at most, by a page that does not say again that somebody changes them. */
export const longestHoldMs = 600_000
const retry = { firstMs: 2_000, mostMs: 30_000 }
/** How long the words of another tab are left to that tab, which shows what becomes of them: it may be gone, or cannot send. */
const othersMs = 2_000

/** What an outbox needs to send the words of one conversation. */
interface Sending {
  tries: number
  timer?: ReturnType<typeof setTimeout>
  isUnderway?: boolean
}

/** Stands for a session that is still to be made. */
export const newName = (): string => `new:${newId()}`

/** Whether words wait for a session that is still to be made. */
export const isUnmade = (sessionId: string): boolean => sessionId.includes(':')

/**
 * What one user has said to one oracle and the server has not heard, in local storage: all tabs have the same, and one of them
 * sends it, in the order of its conversation and once.
 */
export class Outbox extends Store<OutboxSnapshot> {
  readonly #client: OracleClient
  readonly #oracleDid: string
  readonly #overrides: Overrides | undefined
  readonly #key: string
  /** What stands in for the storage where the page may not use it. */
  #memory: readonly OutboxEntry[] = []
  /** The conversations whose words are on their way. */
  readonly #sendings = new Map<string, Sending>()
  /** Whether the storage has what was written last. */
  #isKept = true
  #later: ReturnType<typeof setTimeout> | undefined
  /** Which entries were said in this tab, as long as they wait. */
  readonly #said = new Set<string>()
  #stop: (() => void) | undefined

  constructor(client: OracleClient, oracleDid: string, overrides?: Overrides) {
    super({ entries: [], lanes: new Map(), made: new Map(), cancelled: new Set(), turns: 0 })
    this.#client = client
    this.#oracleDid = oracleDid
    this.#overrides = overrides
    this.#key = `oracle-outbox ${client.wallet.did} ${oracleDid}`
  }

  protected mount(): void {
    const heard = ({ key }: StorageEvent) => {
      if (key !== null && key !== this.#key) return
      this.#look()
      clearTimeout(this.#later)
      this.#later = setTimeout(() => this.#drain(), othersMs)
    }
    window.addEventListener('storage', heard)
    const stop = onReturn(() => this.tryNow())
    this.#stop = () => {
      stop()
      window.removeEventListener('storage', heard)
    }
    this.#drain()
  }

  protected override unmount(): void {
    this.#stop?.()
    for (const { timer } of this.#sendings.values()) clearTimeout(timer)
    clearTimeout(this.#later)
  }

  /** Takes words, and sends them as soon as may be. False where too many wait already. */
  add(sessionId: string, text: string, attachments: readonly Attachment[] = []): boolean {
    const entries = this.#look()
    if (entries.filter((one) => one.sessionId === sessionId).length >= mostPerSession) return false
    const entry = {
      id: newId(),
      sessionId,
      text,
      ...(attachments.length > 0 && { attachments }),
    }
    this.#said.add(entry.id)
    this.#write([...entries, entry])
    this.#drain()
    return true
  }

  /** Keeps words from being sent while somebody changes them. */
  hold(id: string): void {
    const heldUntil = Date.now() + longestHoldMs
    this.#write(this.#look().map((one) => (one.id === id ? { ...one, heldUntil } : one)))
  }

  /** Lets go of words that were held, changed or as they were, and sends them. */
  change(id: string, text?: string): void {
    this.letGo(id, text)
    this.#drain()
  }

  /** Lets go of words that were held, and sends nothing: a page that goes leaves that to the next one. */
  letGo(id: string, text?: string): void {
    this.#write(
      this.#look().map((one) => {
        const { heldUntil: _, ...free } = one
        return one.id !== id ? one : text?.trim() ? { ...free, text } : free
      }),
    )
  }

  /** Takes words back that were not sent. */
  cancel(id: string): void {
    const { cancelled } = this.getSnapshot()
    this.set({ cancelled: new Set([...cancelled, id]) })
    this.#remove(id)
  }

  /** Tries again without waiting any longer. */
  tryNow = (): void => {
    for (const [name, sending] of this.#sendings) {
      sending.tries = 0
      this.#tell(name, { fault: undefined })
    }
    this.#drain()
  }

  #drain(): void {
    for (const name of new Set(this.#look().map(({ sessionId }) => sessionId))) this.#begin(name)
  }

  /** Begins to send the words of one conversation, unless that is under way. */
  #begin(name: string): void {
    const sending = this.#sendings.get(name) ?? { tries: 0 }
    if (sending.isUnderway || this.getSnapshot().lanes.get(name)?.fault) return
    this.#sendings.set(name, sending)
    clearTimeout(sending.timer)
    this.#tell(name, { retryAt: undefined })
    if (globalThis.navigator?.onLine === false) return
    sending.isUnderway = true
    void alone(`${this.#key} ${name}`, () => this.#sendAll(name, sending)).finally(() => {
      sending.isUnderway = false
      this.#look()
      const waits = this.getSnapshot().entries.some(({ sessionId }) => sessionId === name)
      if (!waits) this.#sendings.delete(name)
      this.#tell(name, waits && { sending: undefined })
    })
  }

  async #sendAll(name: string, sending: Sending): Promise<void> {
    for (;;) {
      // Nothing overtakes what was said before in the same conversation.
      const entry = this.#look().find(({ sessionId }) => sessionId === name)
      if (!entry) return
      const heldMs = Math.min(longestHoldMs, (entry.heldUntil ?? 0) - Date.now())
      // A page that held words may be gone: they go out when their time is over.
      if (heldMs > 0) return this.#wait(name, sending, heldMs)
      this.#tell(name, { sending: entry.id })
      const error = isUnmade(name) ? await this.#make(entry) : await this.#send(entry)
      if (!error) {
        sending.tries = 0
        continue
      }
      if (!isPassing(error)) return this.#tell(name, { fault: error })
      const usual = Math.min(retry.mostMs, retry.firstMs * 2 ** sending.tries++)
      const ms = Math.max(usual, error.retryAfterMs ?? 0)
      this.#tell(name, { retryAt: Date.now() + ms })
      return this.#wait(name, sending, ms)
    }
  }

  #wait(name: string, sending: Sending, ms: number): void {
    clearTimeout(sending.timer)
    sending.timer = setTimeout(() => this.#begin(name), ms)
  }

  /** Publishes how the words of one conversation fare, or that none of them is left. */
  #tell(name: string, part: OutboxLane | false): void {
    const lanes = new Map(this.getSnapshot().lanes)
    if (part) lanes.set(name, { ...lanes.get(name), ...part })
    else lanes.delete(name)
    this.set({ lanes })
  }

  /** Sends one message and follows its turn to the end. Resolves to why the server has not taken the message. */
  async #send({ id, sessionId, text, attachments }: OutboxEntry): Promise<OracleError | undefined> {
    const chat = this.#chat(sessionId)
    const isBusy = () => ['submitted', 'streaming'].includes(chat.getSnapshot().status)
    const look = () => {
      const { run } = chat.getSnapshot()
      // From here on the server has the message, and says by itself what became of it.
      if (run.requestId === id && run.runId) this.#remove(id)
    }
    const stop = chat.subscribe(look)
    try {
      while (isBusy()) await change(chat)
      if (!this.#look().some((one) => one.id === id)) return undefined
      await chat.sendMessage(text, undefined, {
        requestId: id,
        ...(attachments && { attachments }),
      })
    } finally {
      stop()
    }
    const { run, sendMessageError } = chat.getSnapshot()
    const isOurs = run.requestId === id
    if (isOurs && !run.runId && sendMessageError && isPassing(sendMessageError))
      return sendMessageError
    this.#remove(id)
    this.set({ turns: this.getSnapshot().turns + 1 })
    return undefined
  }

  /** Makes the session that words wait for: once, also where the answer to the request is lost. They are sent as words of that one. */
  async #make({ id, sessionId: name }: OutboxEntry): Promise<OracleError | undefined> {
    try {
      const { sessionId } = await this.#client.request<IChatSession>(
        this.#oracleDid,
        '/sessions',
        { method: 'POST', headers: { 'idempotency-key': name.replace(':', '-') } },
        this.#overrides,
      )
      this.#tell(sessionId, { sending: id })
      this.#write(this.#look().map((one) => (one.sessionId === name ? { ...one, sessionId } : one)))
      this.#begin(sessionId)
      return undefined
    } catch (thrown) {
      return toOracleError(thrown)
    }
  }

  #remove(id: string): void {
    this.#said.delete(id)
    const entries = this.#look()
    if (entries.some((one) => one.id === id)) this.#write(entries.filter((one) => one.id !== id))
  }

  /**
   * Takes in what waits now. What is said in one tab may be sent by another: the session that its words have got then is theirs
   * here, too, and is read.
   */
  #take(now: readonly OutboxEntry[]): void {
    const { entries, made } = this.getSnapshot()
    if (JSON.stringify(now) === JSON.stringify(entries)) return
    const known = new Map(made)
    for (const { id, sessionId } of entries) {
      const next = now.find((one) => one.id === id)
      if (next && next.sessionId !== sessionId) known.set(sessionId, next.sessionId)
      const at = known.get(sessionId) ?? sessionId
      if (!next && this.#said.delete(id) && !isUnmade(at)) void this.#chat(at).refetchMessages()
    }
    this.set({ entries: now, made: known })
  }

  #chat(sessionId: string) {
    const [oracleDid, overrides] = [this.#oracleDid, this.#overrides]
    return this.#client.chat({ oracleDid, sessionId, overrides })
  }

  /** What waits now, by the storage that all tabs have. */
  #look(): readonly OutboxEntry[] {
    try {
      if (this.#isKept) this.#memory = entriesOf(localStorage.getItem(this.#key))
    } catch {
      // The storage is forbidden: what is said lives as long as the page.
    }
    this.#take(this.#memory)
    return this.#memory
  }

  #write(entries: readonly OutboxEntry[]): void {
    this.#memory = entries
    try {
      if (entries.length === 0) localStorage.removeItem(this.#key)
      else localStorage.setItem(this.#key, JSON.stringify(entries))
      this.#isKept = true
    } catch {
      this.#isKept = false
      tellRefused()
    }
    this.#take(entries)
  }
}

/** The outbox of the client’s user for an oracle: the same for all who ask. */
export const outboxOf = (client: OracleClient, oracleDid: string, overrides?: Overrides): Outbox =>
  client.once(
    JSON.stringify(['outbox', oracleDid, overrides?.baseUrl]),
    () => new Outbox(client, oracleDid, overrides),
  )

/** Whether an error says that the server was not reached, is on its way back, or wants a moment. */
export const isPassing = ({ code, status, retryAfterMs = Infinity }: OracleError): boolean =>
  ['network', 'timeout', 'stream_interrupted'].includes(code) ||
  (status > 500 && status < 505) ||
  (code === 'rate_limited' && retryAfterMs <= retry.mostMs)

/** What a storage has of an outbox; none where it holds nonsense. */
function entriesOf(written: string | null): readonly OutboxEntry[] {
  try {
    const kept: unknown = JSON.parse(written ?? '[]')
    return Array.isArray(kept) ? kept.filter(isEntry) : []
  } catch {
    return []
  }
}

function isEntry(value: unknown): value is OutboxEntry {
  const { id, sessionId, text }: Partial<Record<string, unknown>> = Object(value)
  return [id, sessionId, text].every((one) => typeof one === 'string')
}

/** Runs work while no other tab runs it; a browser without locks has it told apart by request ids alone. */
function alone(name: string, work: () => Promise<void>): Promise<void> {
  const locks = globalThis.navigator?.locks
  return locks ? locks.request(name, work) : work()
}

/** Resolves when a store has changed. */
function change(store: { subscribe(listener: () => void): () => void }): Promise<void> {
  return new Promise((resolve) => {
    const stop = store.subscribe(() => {
      stop()
      resolve()
    })
  })
}

/** A page that came by plain HTTP has no `randomUUID`, but its objects have such names. */
export const newId = (): string =>
  crypto.randomUUID?.() ?? URL.createObjectURL(new Blob()).slice(-36)
