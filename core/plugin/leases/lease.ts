import type { Database } from '../context.ts'
import type { MaybePromise } from '../schema.ts'

/** What the work of a lease is given, for as long as this process holds the lease. */
export interface HeldLease {
  /** Which holding it is: a number that rises each time that the lease changes hands. */
  readonly epoch: number
  /** Fires when the lease is lost, and when the server closes. */
  readonly signal: AbortSignal
  /** Whether this process still holds the lease, by a steady clock of its own: ask before each step that others see. */
  isHeld(): boolean
  /** Called within a transaction, it throws `LEASE_LOST` unless the lease is still held; another holder waits for its end. */
  hold(trx: Database): Promise<void>
}

/** Work that one process at a time does. When it returns, this process does it no more; when it throws, it is tried again. */
export type LeasedWork = (lease: HeldLease) => MaybePromise<void>

/** What the plugin that asked for a lease knows of it. */
export interface Lease {
  /** Whether this process holds the lease. */
  isHeld(): boolean
  /** Which process holds the lease, as `<host>:<process id>`; undefined while none does. */
  heldBy(): Promise<string | undefined>
}
