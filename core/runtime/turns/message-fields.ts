import { z } from 'zod'

/** How large a message may be, whoever sends it. */
const messageBytes = 256 * 1024

/** The words of a message. */
export const messageText = z
  .string()
  .refine((message) => message.trim() !== '', 'expected some text')
  .refine(
    (message) => Buffer.byteLength(message) <= messageBytes,
    `expected at most ${messageBytes} bytes`,
  )
/** The name of the model that is to answer. */
export const modelName = z.string().min(1).max(200)
/** What is attached to a message. */
export const attachmentList = z.array(z.unknown()).max(100)

/** Whether it is a BCP 47 tag of one language. */
export function isLanguage(tag: string): boolean {
  try {
    return tag.length <= 100 && Intl.getCanonicalLocales(tag).length === 1
  } catch {
    return false
  }
}

/** Whether it is the name of an IANA time zone. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
