import type { IncomingHttpHeaders } from 'node:http'

/** The longest wait that a receiver can ask for: a day. */
const mostSeconds = 24 * 60 * 60

/** The whole seconds that `Retry-After` asks for, as a number or as a date; at most a day. */
export function retryAfterOf({ 'retry-after': value }: IncomingHttpHeaders): number | undefined {
  if (!value) return undefined
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000
  if (Number.isNaN(seconds)) return undefined
  return Math.min(mostSeconds, Math.max(0, Math.ceil(seconds)))
}
