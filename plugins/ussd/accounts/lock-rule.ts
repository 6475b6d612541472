/**
 * The rule by which wrong PINs lock. Wrong PINs count for each pair of account and phone; those that come from a phone
 * which is not the account's own count also for the account and for the phone.
 */

const minuteMs = 60_000
/** How many wrong PINs lock. Customers meet the limit of the pair; the other two stop guesses from many phones or at many accounts. */
const mostWrong = { pair: 5, account: 10, phone: 10 } as const
/** A kind of subject for which wrong PINs are counted. */
export type Kind = keyof typeof mostWrong

/** The first lock. Each further one lasts twice as long as the one before. */
const firstLockMs = 15 * minuteMs
/** The longest lock. */
const longestLockMs = 24 * 60 * minuteMs
/**
 * How long a count stays after its last wrong PIN, or after its lock. A guesser who waits a week so that the count starts
 * again gains about forty attempts, as many as the longest lock allows in a week anyway.
 */
export const keptMs = 7 * 24 * 60 * minuteMs

/** The wrong PINs of one pair, account or phone. */
export type Count = {
  /** `pair:<account>:<phone>`, `account:<account>` or `phone:<phone>`. */
  subject: string
  /** The wrong PINs since the last lock. The wrong PIN that locked stays counted until the next attempt. */
  failures: number
  /** How many locks there were, which decides how long the next lock lasts. */
  locks: number
  locked_until: number
  /** When the row may be deleted. */
  forget_at: number
}

/** How many wrong PINs lock a subject. */
const mostOf = (subject: string): number =>
  mostWrong[subject.slice(0, subject.indexOf(':')) as Kind]

/** The count of a subject without wrong PINs. */
export const noCount = (subject: string): Count => ({
  subject,
  failures: 0,
  locks: 0,
  locked_until: 0,
  forget_at: 0,
})

/** The count after one more attempt. Call it only when no lock is in force. */
export function withAttempt(count: Count, now: number): Count {
  const { subject, failures, locks } = count.forget_at > now ? count : noCount(count.subject)
  const most = mostOf(subject)
  const next = failures >= most ? 1 : failures + 1
  if (next < most)
    return { subject, failures: next, locks, locked_until: 0, forget_at: now + keptMs }
  const locked_until = now + Math.min(firstLockMs * 2 ** Math.min(locks, 20), longestLockMs)
  return {
    subject,
    failures: next,
    locks: locks + 1,
    locked_until,
    forget_at: locked_until + keptMs,
  }
}

/** The count without an attempt that turned out not to be wrong; this lifts the lock that the attempt caused. */
export function withoutAttempt(count: Count, now: number): Count {
  if (count.failures === 0) return count
  const wasLocked = count.locked_until > now
  return {
    ...count,
    failures: count.failures - 1,
    locks: wasLocked ? count.locks - 1 : count.locks,
    locked_until: 0,
    forget_at: now + keptMs,
  }
}

/** Until when the longest of these locks is in force; 0 when none is. */
export const lockedUntil = (counts: readonly Count[], now: number): number =>
  Math.max(0, ...counts.map(({ locked_until }) => (locked_until > now ? locked_until : 0)))
