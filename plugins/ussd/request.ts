import { z } from 'zod'

/** The answer to a malformed request. The words are part of the protocol. */
export const invalidInput = 'END Invalid input. Please try again.'
/** The answer when this server or the database fails. The words are part of the protocol. */
export const unavailable = 'END Service temporarily unavailable. Please try again later.'

/** E.164: a plus, no leading zero, 7 to 15 digits, and nothing after them. */
export const phonePattern = /^\+[1-9][0-9]{6,14}$/

/** A short name of a network or an operator; what is none is left out, because nothing depends on it. */
export function labelOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && /^[\w .:/-]{1,40}$/.test(text) ? text : undefined
}

const wellFormed = (value: string) => value.isWellFormed()

/** The request of a gateway for one input of a phone. `text` is everything that was typed in the call so far. */
export const requestSchema = z.object({
  sessionId: z
    .string()
    .regex(/^\P{Cc}{1,100}$/u)
    .refine(wellFormed),
  serviceCode: z.string().regex(/^\*[0-9]+(?:\*[0-9]+)*#$/),
  phoneNumber: z.string().regex(phonePattern),
  text: z
    .string()
    .regex(/^.{0,182}$/su)
    .refine(wellFormed),
  networkCode: z.unknown().optional().transform(labelOf),
  operator: z.unknown().optional().transform(labelOf),
})
/** One input of a phone that passed the schema. */
export type UssdRequest = z.output<typeof requestSchema>
