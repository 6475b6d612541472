import { RuntimeError } from '#core'
import { invalidInput, labelOf, requestSchema } from '../request.ts'
import type { Input } from '../session/typed.ts'
import type { Adapter, Sign } from './adapter.ts'

/** The body of an aggregator's request, by the names of its fields. */
export type Body = Readonly<Record<string, unknown>>

/** What a request of an aggregator means. */
export type Meant =
  | { readonly kind: 'input'; readonly input: Input }
  | { readonly kind: 'ended'; readonly sessionId: string; readonly phoneNumber: string }
  | { readonly kind: 'invalid' }

const { sessionId: sessionIds, phoneNumber: phoneNumbers, text: texts } = requestSchema.shape

/** Reads a request. A field that is not there at all means that the adapter is the wrong one, which the error names. */
export function readCall(adapter: Adapter, body: Body): Meant {
  const { fields } = adapter
  const sessionId = sessionIds.safeParse(textOf(adapter, body, fields.sessionId))
  const phoneNumber = phoneNumbers.safeParse(withPlus(textOf(adapter, body, fields.phoneNumber)))
  const hasEnded = shows(adapter.ended, body)
  const text = texts.safeParse(hasEnded ? '' : textOf(adapter, body, fields.text))
  if (!sessionId.success || !phoneNumber.success || !text.success) return { kind: 'invalid' }
  const caller = { sessionId: sessionId.data, phoneNumber: phoneNumber.data }
  if (hasEnded) return { kind: 'ended', ...caller }
  const from = {
    ...caller,
    network: fields.network === undefined ? undefined : labelOf(body[fields.network]),
    operator: fields.operator === undefined ? undefined : labelOf(body[fields.operator]),
  }
  const isFirst = shows(adapter.first, body)
  if (adapter.text === 'accumulated')
    return { kind: 'input', input: { ...from, text: isFirst ? '' : text.data } }
  const sequence = sequenceOf(fields.sequence === undefined ? undefined : body[fields.sequence])
  return { kind: 'input', input: { ...from, input: text.data, isFirst, sequence } }
}

/** The phone number in a request, where it has one. */
export function phoneIn({ fields }: Adapter, body: Body): string | undefined {
  const value = body[fields.phoneNumber]
  const read = phoneNumbers.safeParse(withPlus(String(value ?? '')))
  return read.success ? read.data : undefined
}

/** The answer of a session, `CON …` or `END …`, as the aggregator wants it. */
export function answerFor(
  { reply }: Adapter,
  body: Body,
  answer: string,
): string | Record<string, unknown> {
  if (reply === 'text') return answer
  const goesOn = answer.startsWith('CON ')
  return Object.fromEntries(
    Object.entries(reply).map(([name, part]) => {
      if (typeof part !== 'object') return [name, part]
      if ('screen' in part) return [name, answer.slice(4)]
      if ('echo' in part) return [name, body[part.echo]]
      return [name, goesOn ? part.continues : part.ends]
    }),
  )
}

/** The answer to a request whose values are invalid. */
export const invalidFor = (adapter: Adapter, body: Body): string | Record<string, unknown> =>
  answerFor(adapter, body, invalidInput)

const mostNamed = 20

function textOf({ name }: Adapter, body: Body, field: string): string {
  const value = body[field]
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  const there = Object.keys(body)
    .slice(0, mostNamed)
    .map((key) => key.replace(/[^\w.-]/g, '?').slice(0, 40))
  throw new RuntimeError(
    'INVALID_INPUT',
    `The adapter ${name} misses the field "${field}" in a request that has ${there.join(', ') || 'no fields'}.`,
    { hint: 'Look at USSD_ADAPTERS, and at the address that the aggregator calls.' },
  )
}

function shows(sign: Sign | undefined, body: Body): boolean {
  if (sign === undefined || body[sign.field] === undefined) return false
  const value = String(body[sign.field]).toLowerCase()
  return sign.values?.some((one) => one.toLowerCase() === value) ?? true
}

/** Aggregators send `254711000111`; E.164 has a plus before it. */
const withPlus = (text: string) => (/^\d/.test(text) ? `+${text}` : text)

function sequenceOf(value: unknown): number | undefined {
  const text = String(value ?? '')
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined
}
