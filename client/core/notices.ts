import type { OracleClient } from './client.ts'
import { type OracleError, toOracleError } from './error.ts'
import type { Overrides } from './records.ts'
import { askAs, type Call } from './request.ts'
import { Store } from './store.ts'
import { usualTiming } from './timing.ts'

/** Something that the user should know: a plugin spoke, its turn ended, failed or waits for the user, or its task was given up. */
export interface Notice {
  /** Rises with every notice of the user. */
  readonly id: number
  readonly kind: 'say' | 'ended' | 'failed' | 'asks' | 'job'
  /** The plugin that it comes from. */
  readonly plugin: string
  readonly title: string
  /** At most 200 characters. */
  readonly text: string
  readonly sessionId?: string
  readonly runId?: string
  readonly createdAt: string
  /** Set once the user has seen it. */
  readonly seenAt?: string
}

/** What goes on in all sessions of the user. */
export type UserEvent =
  | { readonly eventName: 'connected'; readonly payload: { id: number; timestamp: string } }
  | { readonly eventName: 'notice'; readonly payload: Notice }
  | {
      readonly eventName: 'session'
      readonly payload: {
        sessionId: string
        change: 'made' | 'renamed' | 'deleted'
        title?: string
      }
    }
  | {
      readonly eventName: 'run'
      readonly payload: {
        runId: string
        sessionId: string
        state: 'began' | 'ended' | 'waits'
        status?: string
        plugin?: string
        title?: string
      }
    }
  | { readonly eventName: 'seen'; readonly payload: { unread: number } }

/** Which notices the user has seen: these, those of a session, or all up to a number. */
export type Seen =
  { readonly ids: readonly number[] } | { readonly sessionId: string } | { readonly upTo: number }

/** What a page sees of the user's notices. */
export interface NoticesSnapshot {
  /** The newest first. */
  readonly notices: readonly Notice[]
  /** How many the user has not seen, of all there are. */
  readonly unread: number
  /** The plugins of which the user wants no notices. */
  readonly muted: readonly string[]
  readonly isLoading: boolean
  /** Whether new notices come by themselves now. */
  readonly isConnected: boolean
  readonly hasMore: boolean
  readonly error: OracleError | null
}

interface Page {
  readonly notices: readonly Notice[]
  readonly unread: number
}

const pageSize = 50

/** The notices of one user: read once, then kept up to date by one stream for all who look. */
export class UserNotices extends Store<NoticesSnapshot> {
  readonly #client: OracleClient
  readonly #oracleDid: string
  readonly #overrides: Overrides
  readonly #handlers = new Set<(event: UserEvent) => void>()
  #leaving: AbortController | undefined

  constructor(client: OracleClient, oracleDid: string, overrides: Overrides) {
    super({
      notices: [],
      unread: 0,
      muted: [],
      isLoading: true,
      isConnected: false,
      hasMore: false,
      error: null,
    })
    this.#client = client
    this.#oracleDid = oracleDid
    this.#overrides = overrides
  }

  protected mount(): void {
    this.#leaving = new AbortController()
    void this.#follow(this.#leaving.signal)
  }

  protected override unmount(): void {
    this.#leaving?.abort()
    this.set({ isConnected: false })
  }

  /** Calls back at every event; returns how to stop. */
  on = (handler: (event: UserEvent) => void): (() => void) => {
    this.#handlers.add(handler)
    return () => this.#handlers.delete(handler)
  }

  /** Reads the list again; after an error the page also listens again. */
  refetch = async (): Promise<void> => {
    if (!this.getSnapshot().error) return this.#read()
    this.#leaving?.abort()
    if (this.isMounted) this.mount()
  }

  /** Reads the notices before those of the list. */
  fetchMore = async (): Promise<void> => {
    const oldest = this.getSnapshot().notices.at(-1)
    const { notices, unread } = await this.#ask<Page>(
      `/notices?limit=${pageSize}${oldest ? `&before=${oldest.id}` : ''}`,
    )
    const hasMore = notices.length === pageSize
    this.set({ notices: joined(this.getSnapshot().notices, notices), unread, hasMore })
  }

  /** Marks notices as seen, in the list at once. */
  markSeen = async (seen: Seen): Promise<void> => {
    const seenAt = new Date().toISOString()
    this.set({
      notices: this.getSnapshot().notices.map((notice) =>
        isMeant(notice, seen) ? { seenAt, ...notice } : notice,
      ),
    })
    const { unread } = await this.#ask<{ unread: number }>('/notices/seen', { body: seen })
    this.set({ unread })
  }

  /** Wants no more notices of a plugin. */
  mute = (plugin: string): Promise<void> => this.#mute([...this.getSnapshot().muted, plugin])

  /** Wants the notices of a plugin again. */
  unmute = (plugin: string): Promise<void> =>
    this.#mute(this.getSnapshot().muted.filter((name) => name !== plugin))

  async #mute(plugins: readonly string[]): Promise<void> {
    const { plugins: muted } = await this.#ask<{ plugins: string[] }>('/notices/muted', {
      method: 'PUT',
      body: { plugins: [...new Set(plugins)] },
    })
    this.set({ muted })
  }

  #ask<T>(path: string, call?: Call): Promise<T> {
    return this.#client.request<T>(this.#oracleDid, path, call, this.#overrides)
  }

  async #read(): Promise<void> {
    const [{ notices, unread }, { plugins: muted }] = await Promise.all([
      this.#ask<Page>(`/notices?limit=${pageSize}`),
      this.#ask<{ plugins: string[] }>('/notices/muted'),
    ])
    const hasMore = notices.length === pageSize
    this.set({ notices, unread, muted, hasMore, isLoading: false, error: null })
  }

  async #follow(signal: AbortSignal): Promise<void> {
    // Asked for at once: a wallet is asked once for all that a page begins with.
    let reading: Promise<void> | undefined = this.#read()
    reading.catch(() => {}) // told below, once the code is there
    try {
      const { followUser } = await import('../later/user-events.ts')
      await followUser({
        open: async (after, connection) => {
          const read = (reading ??= this.#read())
          // A list that could not be read is tried again with the connection.
          reading = undefined
          await read
          reading = read
          const { apiUrl } = await this.#client.config(this.#oracleDid, this.#overrides).read()
          // What came since the list was read follows the newest of the list.
          return askAs(this.#client.tokens, this.#oracleDid, `${apiUrl}/events`, {
            headers: { 'last-event-id': `${after || this.getSnapshot().notices[0]?.id || 0}` },
            signal: connection,
          })
        },
        onEvent: (event) => this.#take(event),
        onConnection: (isConnected, error) =>
          this.set(reading ? { isConnected } : { error, isLoading: false }),
        signal,
        timing: usualTiming,
      })
    } catch (thrown) {
      if (!signal.aborted)
        this.set({ error: toOracleError(thrown), isLoading: false, isConnected: false })
    }
  }

  #take(event: UserEvent): void {
    const { notices, unread } = this.getSnapshot()
    const { eventName, payload } = event
    // The list may have been read again meanwhile, with this notice in it.
    if (eventName === 'notice' && !notices.some(({ id }) => id === payload.id))
      this.set({ notices: [payload, ...notices], unread: unread + 1 })
    // Another page of the user has marked some, or a session took its notices along.
    const isOld =
      eventName === 'seen'
        ? payload.unread !== unread
        : eventName === 'session' && payload.change === 'deleted'
    if (isOld) this.#read().catch(() => {}) // the list stays as it is until the next reading
    for (const handler of this.#handlers) handler(event)
  }
}

/** Two lists as one, the newest first and each notice once. */
const joined = (newer: readonly Notice[], older: readonly Notice[]): Notice[] => [
  ...newer,
  ...older.filter((notice) => !newer.some(({ id }) => id === notice.id)),
]

function isMeant({ id, sessionId }: Notice, seen: Seen): boolean {
  if ('ids' in seen) return seen.ids.includes(id)
  return 'upTo' in seen ? id <= seen.upTo : sessionId === seen.sessionId
}
