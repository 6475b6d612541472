import { z } from 'zod'

const field = z.string().min(1).max(64)
/** A field whose value, or whose presence where no values are given, says something of a request. */
const sign = z.strictObject({
  field,
  values: z.array(z.string().max(64)).min(1).max(16).optional(),
})
const constant = z.union([z.string().max(200), z.number(), z.boolean()])
const part = z.union([
  constant,
  /** The text of the screen. */
  z.strictObject({ screen: z.literal(true) }),
  /** The value that a field of the request had. */
  z.strictObject({ echo: field }),
  /** One value while the session goes on, and another at its end. */
  z.strictObject({ continues: constant, ends: constant }),
])

/** How one aggregator sends the inputs of phones, and how it wants to be answered. */
export const adapterSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,30}$/)
    .refine((name) => !['debug', 'sessions', 'metrics'].includes(name), 'it is a path already'),
  /** The names of the request's fields; the first three are required of a request. */
  fields: z.strictObject({
    sessionId: field,
    phoneNumber: field,
    text: field,
    /** Numbers the requests of a session. */
    sequence: field.optional(),
    network: field.optional(),
    operator: field.optional(),
  }),
  /** Whether the text is everything typed so far, with `*` between, or the last input only. */
  text: z.enum(['accumulated', 'last']),
  /** What marks the first request of a session; its text is what was dialled, and no input. */
  first: sign.optional(),
  /** What marks a notification that the session has ended, which gets no screen. */
  ended: sign.optional(),
  /** `text` for CON and END, or the fields of a JSON answer. */
  reply: z.union([z.literal('text'), z.record(field, part)]),
})
/** A checked adapter. */
export type Adapter = z.output<typeof adapterSchema>
/** A field whose value or presence says something of a request. */
export type Sign = z.output<typeof sign>
