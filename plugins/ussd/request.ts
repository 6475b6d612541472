import { z } from 'zod'

/** The answer to a malformed request. The words are part of the protocol. */
export const invalidInput = 'END Invalid input. Please try again.'
/** The answer when this server or the database fails. The words are part of the protocol. */
export const unavailable = 'END Service temporarily unavailable. Please try again later.'

/** E.164: a plus, no leading zero, 7 to 15 digits, and nothing after them. */
export const phonePattern = /^\+[1-9][0-9]{6,14}$/

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
})
/** One input of a phone that passed the schema. */
export type UssdRequest = z.output<typeof requestSchema>
