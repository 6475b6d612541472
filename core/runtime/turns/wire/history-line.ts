import type { EarlyEnd, EventPart, TurnUsage } from '../../../plugin.ts'
import type { RunStatus } from '../journal/tables.ts'

/** A tool call in the history, with its outcome. A rendered component stands there as a call with the component's name. */
export interface HistoryCall {
  readonly id: string
  readonly name: string
  readonly args: unknown
  status: 'isRunning' | 'done' | 'error'
  /** It is not carried out before a person has answered. */
  waits?: true
  output?: string
  /** The pictures, sounds and files of the result. */
  parts?: readonly EventPart[]
}

/** What became of a run, as its first message in the history says it. */
export interface HistoryRun {
  readonly runId: string
  /** Where the run stands; of a run that went on after an approval, where the last of its runs stands. */
  readonly status: RunStatus
  /** Why it failed: the code of the event `error`, for as long as the run's events are kept. */
  readonly code?: string
  /** What it cost, as its event `done` says it, for as long as that is kept; of the newest hundred runs. */
  readonly usage?: TurnUsage
}

/** A line of the history as clients read it. */
export interface HistoryMessage {
  readonly id: string
  readonly type: 'human' | 'ai'
  readonly content: string
  toolCalls?: HistoryCall[]
  readonly reasoning?: string
  isComplete: boolean
  readonly createdAt: string
  readonly attachments?: readonly unknown[]
  /** The user stopped listening where it ends; nobody heard more of it. */
  cut?: true
  /** The id of the model that said it. */
  readonly model?: string
  /** The plugin whose words these are, where they are not the user's. */
  readonly origin?: string
  /** On the first message of each run: a person's words, or the answer where a plugin or an approval began the run. */
  run?: HistoryRun
  /** On the last message of an answer that did not come to its own end, or that its length or a filter ended early. */
  ended?: 'aborted' | 'interrupted' | 'failed' | EarlyEnd
}

/** A whole conversation. */
export interface WholeHistory {
  readonly messages: HistoryMessage[]
  /** The cursor of the last message, where there is one: a socket that names it hears whether something was said since. */
  readonly cursor?: string
}

/** A page of a conversation. */
export interface HistoryPage {
  readonly messages: HistoryMessage[]
  /** Ask `before` prevCursor for older messages and `after` nextCursor for newer ones; null when there are none. */
  readonly prevCursor: string | null
  readonly nextCursor: string | null
  readonly hasOlder: boolean
  readonly hasNewer: boolean
  /** How far the conversation goes, on the page with its last message: a socket that names it hears whether something was said since. */
  readonly cursor?: string
}

/** Which page of a conversation a client asks for. */
export interface PageRequest {
  readonly limit: number
  /** `all`: with the words of plugins, which a history has not by itself. */
  readonly origin?: 'all'
  readonly before?: string
  readonly after?: string
}
