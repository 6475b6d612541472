/**
 * What wrong PINs come to. They are counted for each pair of account and phone; beyond that for an
 * account tried from phones that are not its own, and for a phone that tries accounts not its own.
 */

const minuteMs = 60_000
/** How many wrong PINs lock. The pair's own number is what a customer meets; the others stop many phones and many accounts. */
export const mostWrong = { pair: 5, account: 10, phone: 10 } as const
/** What wrong PINs are counted for. */
export type Kind = keyof typeof mostWrong

/** The first lock. Each further one lasts twice as long as the one before. */
export const firstLockMs = 15 * minuteMs
/** No lock lasts longer. */
export const longestLockMs = 24 * 60 * minuteMs
/**
 * How long a count outlives its last wrong PIN, or its lock. In a week of waiting a guesser earns the forty
 * looks that the doubling locks let through once more, which is what the longest lock allows in that time.
 */
export const keptMs = 7 * 24 * 60 * minuteMs

/** The wrong PINs of one pair, account or phone. */
export type Count = {
  /** `pair:<account>:<phone>`, `account:<account>` or `phone:<phone>`. */
  subject: string
  /** Since the last lock. The one that locks stays counted until the next attempt. */
  failures: number
  /** How many locks there were: the next one lasts by this. */
  locks: number
  locked_until: number
  /** When the row goes. */
  forget_at: number
}

/** How many wrong PINs a subject may have before it is locked. */
export const mostOf = (subject: string): number =>
  mostWrong[subject.slice(0, subject.indexOf(':')) as Kind]

/** The count of a subject for which no wrong PIN came. */
export const noCount = (subject: string): Count => ({
  subject,
  failures: 0,
  locks: 0,
  locked_until: 0,
  forget_at: 0,
})

/** A count one attempt later. A lock must not be in force. */
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

/** A count without an attempt that was none, because its PIN was right. A lock that rests on it is lifted. */
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
