import type { Context as KoaContext } from 'koa'
import type { Base, User } from './context.ts'
import type { UnknownInputs } from './jobs.ts'
import type { RunUsage } from './model.ts'
import type { MaybePromise } from './schema.ts'

/** A turn that is about to begin. The words of the message are not among its facts. */
export interface RunAdmission {
  /** Whose turn it is. */
  readonly user: User
  /** The conversation. */
  readonly sessionId: string
  /** The name that the caller gave the turn: the same when the message is sent again. */
  readonly requestId: string
  /** The model that the message asks for, where it asks for one. */
  readonly model?: string
  /** The door through which the turn came: HTTP, or a plugin that called `turns.start`. */
  readonly source: 'http' | 'plugin'
  /** Whose words begin the turn. */
  readonly from: 'user' | 'plugin'
  /** The plugin that started the turn; undefined for a turn that began over HTTP. */
  readonly origin?: string
  /** What came with the message. Over HTTP it is the client's own words, which anybody can make up. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** The request, where the turn came with one. */
  readonly koa?: KoaContext
}

/** A turn that begins in this very transaction. */
export interface RunBeginning extends RunAdmission {
  /** The id of the run. `end` hears of the run by it, whatever resumes the run or takes it over. */
  readonly runId: string
}

/**
 * Why a run came to another end than the one it was going to: its user stopped it, a newer message took its place, its
 * client went away, it waited too long to begin, its processes died too often, or its session was deleted.
 */
export type RunCause = 'stopped' | 'superseded' | 'alone' | 'expired' | 'given-up' | 'deleted'

/** A tool that a run called. */
export interface RunTool {
  /** The name of the tool. */
  readonly name: string
  /** The plugin of the tool; undefined for the kernel's tools, the client's, and those that no plugin has any more. */
  readonly plugin?: string
  /** `unknown`: the call was cut off, and nobody knows whether it was carried out. */
  readonly outcome: 'done' | 'failed' | 'unknown'
}

/** A run that has ended, with all runs that went on with it after an approval. */
export interface RunEnding {
  /** The id of the run: the one that `begin` was told, also where other runs went on with it after approvals. */
  readonly runId: string
  /** The conversation. */
  readonly sessionId: string
  /** Whose run it was. */
  readonly did: string
  /** How the run ended. */
  readonly status: 'finished' | 'aborted' | 'failed' | 'interrupted'
  /** Why, where the run did not come to its own end. */
  readonly cause?: RunCause
  /** Whose words began the turn. */
  readonly from: 'user' | 'plugin'
  /** The plugin that started the turn; undefined for a turn that began over HTTP. */
  readonly origin?: string
  /** What came with the message. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Whether others read along in the room of the session. */
  readonly shared: boolean
  /** Whether the user read any word of a reply. */
  readonly said: boolean
  /** What the models were asked and answered, a line for each model, sub-agents included. */
  readonly usage: readonly RunUsage[]
  /** The tools that were called, in their order. */
  readonly tools: readonly RunTool[]
  /** When the run was recorded. */
  readonly startedAt: Date
  /** When its end was kept. */
  readonly endedAt: Date
  /** The words of the reply that the user read; empty once the session is gone. Only while this call of `end` lasts. */
  reply(): Promise<string>
  /**
   * What the user said; empty where a plugin spoke, and once the session is gone. Only while this call of `end` lasts.
   */
  message(): Promise<string>
}

/**
 * What the functions of the section `runs` reach. In `begin` and `end`, `db` is the transaction and `jobs` writes in it, while
 * `sessions` and `turns` throw.
 */
export type RunContext<Env, Self, Peers, Inputs> = Base<Env, Self, Peers, Inputs>

/** The section `runs`: what a plugin says to the beginning and the end of every turn, whichever way the turn comes. */
export interface RunSection<Context> {
  /**
   * Asked before anything of a turn is recorded. It may wait and ask others; all plugins together have 10 seconds. What it
   * throws is the answer, and the request id stays unused.
   */
  admit?(run: RunAdmission, ctx: Context): MaybePromise<void>
  /**
   * Called in the transaction that records the run. It writes with `ctx.db` and waits for nothing else. It may be called
   * twice, the first call rolled back. When it throws, nothing is recorded. After a refusal (a `RuntimeError` with a status
   * below 500) `admit` is asked once more, where it can write and ask others: what it throws then is the answer. A turn
   * that `admit` lets in and `begin` refuses three times is answered with the refusal of `begin`.
   */
  begin?(run: RunBeginning, ctx: Context): MaybePromise<void>
  /**
   * Says when a run is recorded whether `end` is to hear of it; without this `end` hears of every run. It reads with `ctx.db`, in the
   * transaction that records the run or, on PostgreSQL, just before the statement that does. It writes nothing, may be
   * called twice, and never refuses a turn: where it throws, `end` hears of the run.
   */
  wants?(run: RunBeginning, ctx: Context): MaybePromise<boolean>
  /**
   * Called when the end of a run is kept, in a transaction that commits once for each run and plugin. It writes with
   * `ctx.db` and waits for nothing else. When it throws, it is called again within a minute, and after a restart.
   */
  end?(run: RunEnding, ctx: Context): MaybePromise<void>
}

/** `runs` with its types erased, as the kernel calls it. */
export type AnyRunSection = RunSection<AnyRunContext>

/** What the functions reach, with the types erased. */
export type AnyRunContext = RunContext<unknown, unknown, unknown, UnknownInputs>
