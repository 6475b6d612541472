import type { OracleClient } from './client.ts'
import { type OracleError, toOracleError } from './error.ts'
import type { Overrides } from './records.ts'
import type { Call } from './request.ts'
import { Store } from './store.ts'

/** How an oracle may remember its user. */
export type MemoryMode = 'ask' | 'on' | 'paused' | 'off'

/** What an oracle remembers of its user: one sentence, and where it was said. */
export interface RememberedThing {
  readonly id: string
  readonly kind: 'fact' | 'preference' | 'event' | 'plan' | 'wish'
  readonly about: string
  readonly slot?: string
  readonly text: string
  /** The user's own words. */
  readonly quote: string
  readonly source?: {
    readonly sessionId: string
    readonly runId: string
    readonly quote: string
    readonly at: string
  }
  /** How often it was said. */
  readonly sources: number
  readonly by: 'asked' | 'noticed' | 'person'
  readonly validFrom: string
  readonly validTo?: string
  readonly replacedBy?: string
  readonly until?: string
  readonly pinned: boolean
  readonly uses: number
  readonly confirmedAt: string
  readonly createdAt: string
  /** Names the state that `update` changes: a thing that was changed meanwhile is not overwritten. */
  readonly etag: string
}

/** What the user writes by hand. */
export interface NewThing {
  readonly text: string
  readonly kind?: RememberedThing['kind']
  readonly about?: string
  readonly slot?: string
  readonly until?: string
  readonly pinned?: boolean
}

/** What the user corrects; null takes a slot or an end away. */
export interface ThingChanges {
  readonly text?: string
  readonly kind?: RememberedThing['kind']
  readonly slot?: string | null
  readonly until?: string | null
  readonly pinned?: boolean
}

/** What was erased, and the sessions that still hold the words. */
export interface ErasedThing {
  readonly message: string
  readonly erased: number
  readonly sessions: readonly { readonly sessionId: string; readonly delete: string }[]
}

/** The memories that an answer went by, and what was noticed in its turn. */
export interface UsedThings {
  readonly used: readonly { readonly id: string; readonly text: string }[]
  readonly noticed: readonly string[]
}

/** What a page sees of the memories of its user. */
export interface MemoriesSnapshot {
  readonly memories: readonly RememberedThing[]
  /** How many there are, shown or not. */
  readonly total: number
  readonly query: string
  readonly isLoading: boolean
  readonly error: OracleError | null
}

/** How many memories one reading brings. */
const perPage = 200

/** What the user has just written, as it is shown until the oracle has answered. */
function comingThing({ text, ...given }: NewThing): RememberedThing {
  const now = new Date().toISOString()
  const times = { validFrom: now, confirmedAt: now, createdAt: now }
  const usual = { kind: 'fact', about: 'me', pinned: false, by: 'person' } as const
  const id = `coming-${now}`
  return { id, text, quote: text, sources: 1, uses: 0, etag: '', ...usual, ...times, ...given }
}

/** The memories of one user. A change shows at once, and goes back where the oracle refuses it. */
export class Memories extends Store<MemoriesSnapshot> {
  readonly #ask: <T>(path: string, call?: Call) => Promise<T>
  /** Counts readings and changes: the answer of an older reading is of no use. */
  #turn = 0

  constructor(client: OracleClient, oracleDid: string, overrides: Overrides) {
    super({ memories: [], total: 0, query: '', isLoading: true, error: null })
    this.#ask = (path, call) => client.request(oracleDid, path, call, overrides)
  }

  protected mount(): void {
    if (this.getSnapshot().isLoading) void this.refetch().catch(() => {})
  }

  /** Reads again, by the query that stands. */
  refetch = async (): Promise<void> => {
    const turn = ++this.#turn
    const { query, isLoading } = this.getSnapshot()
    if (!isLoading) this.set({ isLoading: true })
    const asked = query.trim() === '' ? '' : `&query=${encodeURIComponent(query)}`
    try {
      const page = await this.#ask<Pick<MemoriesSnapshot, 'memories' | 'total'>>(
        `/memory?limit=${perPage}${asked}`,
      )
      if (turn !== this.#turn) return
      this.set({ memories: page.memories, total: page.total, isLoading: false, error: null })
    } catch (thrown) {
      const error = toOracleError(thrown)
      if (turn === this.#turn) this.set({ isLoading: false, error })
      throw error
    }
  }

  /** Ranks by words; empty words show the newest first. */
  setQuery = (query: string): void => {
    this.set({ query })
    void this.refetch().catch(() => {})
  }

  add = (thing: NewThing): Promise<RememberedThing> =>
    this.#change(
      (shown) => [comingThing(thing), ...shown],
      () => this.#ask<RememberedThing>('/memory', { body: thing }),
    )

  update = (id: string, changes: ThingChanges): Promise<RememberedThing> => {
    const { slot, until, ...plain } = changes
    const shownAs = {
      ...plain,
      ...(slot !== undefined && { slot: slot ?? undefined }),
      ...(until !== undefined && { until: until ?? undefined }),
    }
    const etag = this.getSnapshot().memories.find((one) => one.id === id)?.etag
    return this.#change(
      (shown) => shown.map((one) => (one.id === id ? { ...one, ...shownAs } : one)),
      () =>
        this.#ask<RememberedThing>(`/memory/${encodeURIComponent(id)}`, {
          method: 'PATCH',
          body: changes,
          headers: etag === undefined ? {} : { 'if-match': etag },
        }),
    )
  }

  remove = (id: string): Promise<ErasedThing> =>
    this.#change(
      (shown) => shown.filter((one) => one.id !== id),
      () => this.#ask<ErasedThing>(`/memory/${encodeURIComponent(id)}`, { method: 'DELETE' }),
    )

  removeAll = (): Promise<{ readonly erased: number }> =>
    this.#change(
      () => [],
      () => this.#ask<{ erased: number }>('/memory?all=true', { method: 'DELETE' }),
    )

  /** Everything, with what held before: `POST /memory/import` takes it in again. */
  exportAll = (): Promise<unknown> => this.#ask('/memory/export')

  /** Keeps a session out of memory, or lets it in again. */
  setIncognito = async (sessionId: string, incognito: boolean): Promise<void> => {
    const path = `/memory/sessions/${encodeURIComponent(sessionId)}`
    await this.#ask(path, { method: 'PUT', body: { incognito } })
  }

  /** Why the oracle answered so in a run. */
  usedIn = (runId: string): Promise<UsedThings> =>
    this.#ask(`/memory/used?run=${encodeURIComponent(runId)}`)

  async #change<T>(
    apply: (shown: readonly RememberedThing[]) => readonly RememberedThing[],
    work: () => Promise<T>,
  ): Promise<T> {
    const turn = ++this.#turn
    const before = this.getSnapshot()
    const memories = apply(before.memories)
    const total = before.total + memories.length - before.memories.length
    this.set({ memories, total, isLoading: false, error: null })
    try {
      const done = await work()
      await this.refetch().catch(() => {})
      return done
    } catch (thrown) {
      const error = toOracleError(thrown)
      if (turn === this.#turn) this.set({ memories: before.memories, total: before.total })
      await this.refetch().catch(() => {})
      this.set({ error })
      throw error
    }
  }
}
