import { randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'

/** Which database a statement is for. */
type Dialect = 'sqlite' | 'postgres'

/**
 * The database's clock in milliseconds. The clocks of the servers differ; every lease is made and judged by
 * this one.
 */
export function databaseNow(dialect: Dialect): RawBuilder<number> {
  return dialect === 'postgres'
    ? sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`
    : sql<number>`cast(unixepoch('subsec') * 1000 as integer)`
}

/** The time of a test's clock: a row of the database, so that every process on it has the same time. */
export const setNow = (): RawBuilder<number> => sql<number>`(select ms from kernel_clock)`

/**
 * A UUID that begins with the time (version 7): the rows of one time lie side by side in an index, where those of random ids
 * would each change a page of their own. The order of such ids says nothing: clocks differ, and others make ids of their own.
 */
export function timedId(): string {
  const ms = Date.now().toString(16).padStart(12, '0')
  return `${ms.slice(0, 8)}-${ms.slice(8)}-7${randomUUID().slice(15)}`
}

/** The time as plugins ask for it. */
export type Now = () => Date

/** The time of the machine. */
export const machineNow: Now = () => new Date()

/** Work of an app that waits for a time of the database's clock. A test's clock asks for it when the test moves the clock. */
export interface Timed {
  /** When the next of this work is due, in milliseconds since 1970; undefined when none waits for a time. */
  nextAt?(): Promise<number | undefined>
  /** Begins what is due now; resolves to how much of it there is, what runs already included. */
  catchUp?(): Promise<number>
  /** Mends and deletes what another time has made wrong or too old. */
  tidy?(): Promise<void>
}
