import type { OracleClient } from '../core/client.ts'
import type { Call } from '../core/request.ts'

/** The words that the page and the views in it have in common. */
export interface ViewWords {
  readonly asking: string
  readonly readAgain: string
  readonly tryAgain: string
  readonly notThere: string
}

/** What the page gives a view that a plugin brings. */
export interface ViewHost {
  /** The client of the page's user. */
  readonly client: OracleClient
  readonly oracleDid: string
  /** The session of the chat that was open last; empty where there was none. */
  readonly sessionId: string
  /** Opens the chat of a session. */
  session(id: string): void
  /** What stands in the page's address behind the name of the view; below an answer, the answer's run. */
  readonly route: readonly string[]
  /** Where in a chat the view is shown; undefined for a view beside the chat. */
  readonly within?: 'answer' | 'composer'
  /** Changes what stands there. */
  go(...route: readonly string[]): void
  /** Asks a route of the server for JSON, as the page's user. */
  ask<T>(path: string, call?: Call): Promise<T>
  readonly theme: 'light' | 'dark'
  /** The language of the browser: `sw-KE`. */
  readonly locale: string
  /** What the page says itself, in that language where it has it: English, Swahili, French. */
  readonly words: ViewWords
  /** Has a screen reader say a sentence. */
  announce(sentence: string): void
  /** A box for what should outlive a change of view; it is empty after a reload. */
  readonly keep: Map<string, unknown>
}

/** The default export of a view: shows it in an element, and returns what takes it away. */
export type ShowView = (element: HTMLElement, host: ViewHost) => () => void
