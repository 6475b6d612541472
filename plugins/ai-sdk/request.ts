import { z } from 'zod'

/** The largest body. Histories are long. */
export const bodyBytes = 4 * 1024 * 1024
const mostMessages = 20_000
const mostParts = 5_000
const mostTools = 200

/** A part of a message. Parts of other kinds, such as data, are the page's own. */
const part = z.looseObject({
  type: z.string().max(300),
  text: z.string().optional(),
  url: z.string().optional(),
  filename: z.string().max(300).optional(),
  toolCallId: z.string().max(300).optional(),
  state: z.string().max(40).optional(),
  approval: z
    .looseObject({
      id: z.string().max(300),
      approved: z.boolean().nullish(),
      reason: z.string().nullish(),
    })
    .nullish(),
  providerExecuted: z.boolean().nullish(),
  output: z.unknown().optional(),
  errorText: z.string().optional(),
})
/** A part of a message, parsed. */
export type ChatPart = z.output<typeof part>

const message = z.looseObject({
  id: z.string().max(300).nullish(),
  role: z.enum(['system', 'user', 'assistant'], 'expected system, user or assistant'),
  parts: z.array(part).max(mostParts),
})
/** A message as `useChat` keeps it. */
export type ChatMessage = z.output<typeof message>

const tool = z.looseObject({
  name: z.string().max(200),
  description: z.string().nullish(),
  schema: z.record(z.string(), z.unknown()).nullish(),
})

/** The id of a chat. A path cannot name the ids that are left out. */
const chatId = z
  .string()
  .max(100)
  .regex(
    /^(?!\.{1,2}$)\P{Cc}+$/u,
    'expected a name without control characters, and not "." or ".."',
  )

/** The body of `POST /ai-sdk/chat`. */
export const chatInput = z.looseObject({
  id: chatId,
  messages: z.array(message).min(1).max(mostMessages).optional(),
  message: message.optional(),
  trigger: z.enum(['submit-message', 'regenerate-message']).nullish(),
  messageId: z.string().max(300).nullish(),
  tools: z.array(tool).max(mostTools, `expected at most ${mostTools} tools`).nullish(),
  model: z.string().max(300).nullish(),
  timezone: z.string().max(100).nullish(),
})
/** A request, parsed. */
export type ChatRequest = z.output<typeof chatInput>

/** What the routes of one chat take. */
export const idInput = z.object({ id: chatId })
