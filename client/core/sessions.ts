import { toOracleError, type OracleError } from './error.ts'
import type { IChatSession } from './records.ts'
import type { Call } from './request.ts'
import { Store } from './store.ts'

/** What a page sees of the user's sessions. */
export interface SessionsSnapshot {
  readonly sessions: IChatSession[]
  readonly total: number
  readonly isLoading: boolean
  readonly error: OracleError | null
  readonly hasNextPage: boolean
  readonly isFetchingNextPage: boolean
  readonly isCreatingSession: boolean
  readonly isCreateSessionError: boolean
  readonly isDeletingSession: boolean
  readonly isDeleteSessionError: boolean
  readonly isConfigReady: boolean
}

interface Page {
  readonly sessions: IChatSession[]
  readonly total?: number
}

/** The user's sessions with one oracle, the newest first. */
export class Sessions extends Store<SessionsSnapshot> {
  readonly #request: <T>(path: string, call?: Call) => Promise<T>
  readonly #limit: number
  #loading: Promise<void> | undefined

  constructor(request: <T>(path: string, call?: Call) => Promise<T>, limit: number) {
    super({
      sessions: [],
      total: 0,
      isLoading: true,
      error: null,
      hasNextPage: false,
      isFetchingNextPage: false,
      isCreatingSession: false,
      isCreateSessionError: false,
      isDeletingSession: false,
      isDeleteSessionError: false,
      isConfigReady: false,
    })
    this.#request = request
    this.#limit = limit
  }

  protected mount(): void {
    void this.refetch()
  }

  /** Reads again as many sessions as the list has. */
  refetch = (): Promise<void> => {
    const count = Math.max(this.#limit, this.getSnapshot().sessions.length)
    return (this.#loading ??= this.#read(0, count).finally(() => (this.#loading = undefined)))
  }

  /** Reads the sessions that follow those of the list. */
  fetchNextPage = async (): Promise<void> => {
    const { hasNextPage, isFetchingNextPage, sessions } = this.getSnapshot()
    if (!hasNextPage || isFetchingNextPage) return
    this.set({ isFetchingNextPage: true })
    await this.#read(sessions.length, this.#limit)
    this.set({ isFetchingNextPage: false })
  }

  /** Creates a session and puts it at the top of the list. */
  createSession = async (): Promise<IChatSession> => {
    this.set({ isCreatingSession: true, isCreateSessionError: false })
    try {
      const session = await this.#request<IChatSession>('/sessions', { method: 'POST' })
      const { sessions, total } = this.getSnapshot()
      this.set({ isCreatingSession: false, sessions: [session, ...sessions], total: total + 1 })
      return session
    } catch (error) {
      this.set({ isCreatingSession: false, isCreateSessionError: true })
      throw error
    }
  }

  /** Deletes a session, on the server and from the list. */
  deleteSession = async (sessionId: string): Promise<void> => {
    this.set({ isDeletingSession: true, isDeleteSessionError: false })
    try {
      await this.#request(`/sessions/${encodeURIComponent(sessionId)}`, { method: 'DELETE' })
      const { sessions, total } = this.getSnapshot()
      const left = sessions.filter((session) => session.sessionId !== sessionId)
      this.set({
        isDeletingSession: false,
        sessions: left,
        total: Math.max(left.length, total - 1),
      })
    } catch (error) {
      this.set({ isDeletingSession: false, isDeleteSessionError: true })
      throw error
    }
  }

  async #read(offset: number, limit: number): Promise<void> {
    try {
      const page = await this.#request<Page>(
        `/sessions?limit=${Math.min(limit, 100)}&offset=${offset}`,
      )
      const known = offset ? this.getSnapshot().sessions : []
      const ids = new Set(known.map(({ sessionId }) => sessionId))
      const sessions = [...known, ...page.sessions.filter(({ sessionId }) => !ids.has(sessionId))]
      const total = page.total ?? sessions.length
      const hasNextPage = page.sessions.length > 0 && sessions.length < total
      this.set({ sessions, total, hasNextPage, isLoading: false, error: null, isConfigReady: true })
    } catch (error) {
      this.set({ isLoading: false, error: toOracleError(error) })
    }
  }
}
