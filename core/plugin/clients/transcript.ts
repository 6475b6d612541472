import type { TurnUsage } from '../model.ts'

/** Which messages of a session are read. */
export interface ReadMessages {
  /** Whose session it is. */
  readonly user: { readonly did: string }
  /** The session. */
  readonly session: string
  /** How many, the newest: 1 to 1,000, by default 100. */
  readonly limit?: number
  /** Older ones than this: `prevCursor` of a page that was read before. */
  readonly before?: string
}

/** Messages of a session as its user reads them, oldest first. */
export interface SessionMessages {
  /** The messages. */
  readonly messages: readonly SessionMessage[]
  /** The cursor of the page before this one; null where there is none. */
  readonly prevCursor: string | null
}

/** A message of a session. */
export interface SessionMessage {
  readonly id: string
  readonly type: 'human' | 'ai'
  readonly content: string
  /** What was called, and what was shown: a component stands as a call of its name. */
  readonly toolCalls?: readonly SessionCall[]
  readonly reasoning?: string
  readonly createdAt: string
  readonly attachments?: readonly unknown[]
  /** On the first message of each run. */
  readonly run?: { readonly runId: string; readonly status: string; readonly usage?: TurnUsage }
}

/** A call in a message, with its outcome. */
export interface SessionCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
  readonly status: 'isRunning' | 'done' | 'error'
  /** A component that was shown, and no call of a tool. */
  readonly isComponent?: true
  /** It is not carried out before a person has answered. */
  readonly waits?: true
  readonly output?: string
}
