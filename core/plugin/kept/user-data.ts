import type { Base } from '../context.ts'
import type { UnknownInputs } from '../jobs.ts'
import type { MaybePromise } from '../schema.ts'

/** One thing that a plugin keeps of a user, as the user's export tells it. */
export interface UserDataItem {
  /** What the thing is, such as `note`: one word for each kind, lower-case words joined by hyphens. */
  readonly kind: string
  /** What is kept of it: JSON, at most 1 MiB. Leave out what the user never gave or saw, such as digests. */
  readonly [field: string]: unknown
}

/** What an erasure leaves behind, because a law or a ledger demands it. */
export interface KeptData {
  /** What is kept, and how much of it: `3 paid claims`. The words of the user are never among it. */
  readonly what: string
  /** Who demands it: a sentence for the user. */
  readonly why: string
  /** Until when, where that is known. */
  readonly until?: Date
}

/** What an erasure did. */
export interface ErasedData {
  /** How many things of each kind are gone. */
  readonly erased: Readonly<Record<string, number>>
  /** What had to stay. */
  readonly kept?: readonly KeptData[]
}

/** What the functions of the section `userData` reach: `signal` fires when nobody waits any more, and when the time is over. */
export type UserDataContext<Env, Self, Peers, Inputs> = Base<Env, Self, Peers, Inputs>

/**
 * The section `userData`: what a plugin keeps of a user. A plugin that has a column `did` in a table brings it, so that
 * users can take their data with them, and can have it erased.
 */
export interface UserDataSection<Context> {
  /**
   * Yields everything that the plugin keeps of this DID, and nothing of anybody else: an item with another `did` cuts the
   * export. Read in pages, because the reader of the export may be slow.
   */
  export(did: string, ctx: Context): AsyncIterable<UserDataItem>
  /**
   * Erases everything that the plugin keeps of this DID. The runtime calls it in a job of its own, and again after a crash
   * or a throw: what is gone already is no fault. It is called for a DID of which the plugin knows nothing, too.
   */
  erase(did: string, ctx: Context): MaybePromise<ErasedData>
}

/** What the functions of `userData` reach, with the types erased. */
export type AnyUserDataContext = UserDataContext<unknown, unknown, unknown, UnknownInputs>
