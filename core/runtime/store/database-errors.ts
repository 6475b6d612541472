import { RuntimeError } from '../../errors.ts'

const sqliteBusy = 5
/**
 * SQLite's primary result codes, the low byte of the extended ones, for a file that cannot be used: busy, read-only,
 * I/O error, corrupt, full disk, cannot open, not a database.
 */
const sqliteGone = new Set([sqliteBusy, 8, 10, 11, 13, 14, 26])

const socketCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
])

/** SQLSTATEs about who connects and where to: PostgreSQL answered, and waiting does not help. */
const refused = /^(28...|3D000)$/
/** What poolers say to a parameter that they do not know. */
const protocolViolation = '08P01'
/**
 * The connection (08), a standby that has not taken its primary's place yet (25006), a full disk (53100), too many connections
 * (53300), a server that stops, crashed or starts (57P0x).
 */
const gone = /^(08...|25006|53[13]00|57P0[1-5])$/

/** What Kysely says before it asks the driver, which therefore cannot translate it. */
const closed = 'driver has already been destroyed'
/** What pg and node:sqlite say without a code of their own. */
const goneSayings = new RegExp(
  '^(Connection terminated|Client has encountered a connection error|Client was closed|' +
    'Query read timeout|timeout expired|Cannot use a pool after calling end|' +
    'database is not open|statement has been finalized)',
)
const allTaken = 'timeout exceeded when trying to connect'

/**
 * Whether something failed because the database cannot be had: `DATABASE_UNREACHABLE`, itself or as
 * a cause. The store gives every such error that code, so a refused connection to anything else
 * (a model, an upstream) never counts.
 */
export function isConnectionError(error: unknown): boolean {
  for (let depth = 0, at = error; at instanceof Error && depth < 5; depth++, at = at.cause)
    if (at.message === closed || (at instanceof RuntimeError && at.code === 'DATABASE_UNREACHABLE'))
      return true
  return false
}

/** What the database itself said, where an error says no more than that it cannot be had: for operators, never for callers. */
export function saidByDatabase(error: unknown): string {
  const { cause } = facts(error)
  const said = isConnectionError(error) && cause instanceof Error ? cause : error
  return said instanceof Error ? said.message : String(said)
}

/** What to do about an error of a file system or a database: a disk that is full needs room, and nothing else. */
export const makeRoomOr = (said: string, otherwise: string): string =>
  /disk is full|no space left|disk full|quota exceeded/i.test(said)
    ? 'Make room on that disk.'
    : otherwise

/** Whether SQLite refused because another connection holds the file. */
export function isFileBusy(error: unknown): boolean {
  const { errcode } = facts(error)
  return typeof errcode === 'number' && (errcode & 0xff) === sqliteBusy
}

/** Whether the server answered and refused the connection: a wrong password, an unknown database, a parameter. */
export function isRefusal(error: unknown): boolean {
  const { code } = facts(error)
  return typeof code === 'string' && (refused.test(code) || code === protocolViolation)
}

/** The error that the layers above get for a driver's: the same one, unless the database cannot be had. */
export function translated(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  if (error.message === allTaken)
    return databaseBusy('Every one of the DATABASE_POOL connections to PostgreSQL', error)
  const { code, errcode } = facts(error)
  const unreachable =
    (typeof errcode === 'number' && sqliteGone.has(errcode & 0xff)) ||
    (typeof code === 'string' &&
      (socketCodes.has(code) || gone.test(code) || refused.test(code))) ||
    goneSayings.test(error.message)
  if (!unreachable) return error
  return new RuntimeError('DATABASE_UNREACHABLE', 'The database does not answer.', { cause: error })
}

/**
 * The error for a wait for a free connection that took too long. Whoever asked reads only that the server is busy; what
 * was in use stands in the cause, which goes to the log.
 */
export function databaseBusy(what: string, cause?: unknown): RuntimeError {
  const forOperators = new Error(
    `${what} stayed in use for too long: by a transaction or a stream of rows that is still open. ` +
      'Inside a transaction use the handle it gives, never the outer db, and await nothing slow.',
    { cause },
  )
  return new RuntimeError('UNAVAILABLE', 'Busy, try again', {
    headers: { 'Retry-After': '1' },
    cause: forOperators,
  })
}

function facts(error: unknown): { code?: unknown; errcode?: unknown; cause?: unknown } {
  return typeof error === 'object' && error !== null ? error : {}
}
