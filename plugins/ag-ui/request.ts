import { z } from 'zod'

/** The largest body. */
export const bodyBytes = 4 * 1024 * 1024
const mostMessages = 20_000
const mostTools = 200

const part = z.looseObject({ type: z.string().max(100), text: z.string().optional() })

const message = z.looseObject({
  id: z.string().max(300).nullish(),
  role: z.enum(
    ['user', 'assistant', 'tool', 'system', 'developer', 'activity', 'reasoning'],
    'expected user, assistant, tool, system, developer, activity or reasoning',
  ),
  // An activity has an object.
  content: z
    .union([z.string(), z.array(part).max(1_000), z.record(z.string(), z.unknown())])
    .nullish(),
  toolCallId: z.string().max(300).nullish(),
  toolCalls: z
    .array(z.looseObject({ id: z.string().max(300) }))
    .max(1_000)
    .nullish(),
  error: z.string().nullish(),
})
/** A message as a client of the protocol keeps it. */
export type AgMessage = z.output<typeof message>

const tool = z.looseObject({
  name: z.string().max(200),
  description: z.string().nullish(),
  parameters: z.unknown().optional(),
})

/** The id of a thread. A path cannot name the ids that are left out. */
const threadId = z
  .string()
  .max(100)
  .regex(
    /^(?!\.{1,2}$)\P{Cc}+$/u,
    'expected a name without control characters, and not "." or ".."',
  )

/** The body of `POST /ag-ui`. */
export const runInput = z.looseObject({
  threadId,
  runId: z.string().min(1).max(300),
  protocolVersion: z.string().max(40).nullish(),
  state: z.unknown().optional(),
  messages: z.array(message).max(mostMessages),
  tools: z.array(tool).max(mostTools, `expected at most ${mostTools} tools`).nullish(),
  context: z
    .array(z.looseObject({ description: z.string(), value: z.string() }))
    .max(1_000)
    .nullish(),
  forwardedProps: z.unknown().optional(),
  resume: z
    .array(
      z.looseObject({
        interruptId: z.string().max(300),
        status: z.enum(['resolved', 'cancelled'], 'expected resolved or cancelled'),
        payload: z.unknown().optional(),
      }),
    )
    .max(100)
    .nullish(),
})
/** A request, parsed. */
export type RunInput = z.output<typeof runInput>
