import { isEntityId } from '../did.ts'
import type { TypeName } from '../request.ts'
import { isObject } from '../wants.ts'

/** Whether a value is a number that JSON can write. */
export const isNumber = (value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value)

/** A date and a time with an offset (RFC 3339), of a day that there is. */
function isDateTime(value: unknown): boolean {
  if (typeof value !== 'string') return false
  const match =
    /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:[Zz]|[+-](\d{2}):(\d{2}))$/.exec(
      value,
    )
  if (!match) return false
  const [year, month, day, hour, minute, second, offHour, offMinute] = match
    .slice(1)
    .map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ] // eight groups
  const days = new Date(Date.UTC(year, month, 0)).getUTCDate()
  return (
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    (year < 100 || day <= days) &&
    day <= 31 &&
    hour <= 23 &&
    minute <= 59 &&
    second <= 60 &&
    offHour <= 23 &&
    offMinute <= 59
  )
}

/** For each type name, a check of its values, and the words for them in messages. */
export const types: Readonly<
  Record<TypeName, { readonly wanted: string; is(value: unknown): boolean }>
> = {
  string: { wanted: 'a string', is: (value) => typeof value === 'string' },
  number: { wanted: 'a number', is: isNumber },
  // JSON.parse rounds whole numbers beyond 2^53, so a client would read back another number.
  integer: { wanted: 'a whole number', is: (value) => Number.isSafeInteger(value) },
  boolean: { wanted: 'true or false', is: (value) => typeof value === 'boolean' },
  object: { wanted: 'an object', is: isObject },
  array: { wanted: 'a list', is: Array.isArray },
  'date-time': {
    wanted: 'a date and time such as "2026-03-01T12:00:00Z"',
    is: isDateTime,
  },
  did: { wanted: 'a DID', is: (value) => typeof value === 'string' && isEntityId(value) },
}
