import type { EarlyEnd, TurnUsage } from '../model.ts'
import type { ClientCall } from './calls.ts'

/**
 * A turn as protocols of other clients tell it: each start has its end, and one thing ends before the next begins. `approval`
 * and `client-calls` come once the run stands still, so that an answer may follow at once.
 */
export type TurnPart =
  | {
      readonly type: 'text-start' | 'text-end' | 'reasoning-start' | 'reasoning-end'
      readonly id: string
    }
  | { readonly type: 'text' | 'reasoning'; readonly id: string; readonly text: string }
  | ({ readonly type: 'call' } & ClientCall)
  | {
      readonly type: 'result'
      readonly toolCallId: string
      readonly toolName: string
      readonly output?: string
      readonly error?: string
      /** A person was asked about the call, and said no. */
      readonly isDenied?: true
    }
  | {
      readonly type: 'progress'
      readonly toolCallId?: string
      readonly done: number
      readonly total?: number
      readonly note?: string
    }
  | {
      readonly type: 'component'
      readonly id: string
      readonly name: string
      readonly args: Readonly<Record<string, unknown>>
      readonly status: 'isRunning' | 'done'
    }
  | { readonly type: 'client-calls'; readonly runId: string; readonly calls: readonly ClientCall[] }
  | ({
      readonly type: 'approval'
      readonly runId: string
      readonly question?: string
      readonly reason?: string
    } & ClientCall)
  | {
      readonly type: 'error'
      readonly code: string
      readonly message: string
      readonly status?: number
    }
  | {
      readonly type: 'end'
      readonly runId: string
      readonly status: 'finished' | 'aborted' | 'interrupted' | 'failed' | 'waiting'
      readonly usage?: TurnUsage
      /** Why the model's last answer ended early; absent where it ended as usual. */
      readonly ended?: EarlyEnd
    }
