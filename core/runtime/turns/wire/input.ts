import { z } from 'zod'
import { attachmentList, isTimeZone, messageText, modelName } from '../message-fields.ts'
import { allSchemaBytes, argumentsFault } from './client-schemas.ts'

const mostTools = 200

/** The shape of a UUID, whichever version; a client's own counts as the key of its run. */
const uuid = z.guid('expected a UUID')
const sessionId = z.string().min(1).max(100)
const runId = z.string().min(1).max(100)
/** Whose words a history has: the user's and the agent's, or also those of plugins. */
const origin = z.literal('all', 'expected "all"').optional()

const tool = z.object({
  effect: z.enum(['read', 'write']).optional(),
  name: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/, 'expected letters, digits, _ and -, 64 at most'),
  description: z.string().max(4096).default(''),
  schema: z
    .unknown()
    .default({})
    // The check of the whole message refuses what is no object.
    .transform((schema) => schema as Record<string, unknown>),
})

const toolList = <T extends typeof tool>(each: T) =>
  z
    .array(each)
    .max(mostTools, `expected at most ${mostTools} tools`)
    .superRefine((tools, ctx) => {
      const seen = new Set<string>()
      for (const [i, { name }] of tools.entries()) {
        if (seen.has(name))
          ctx.addIssue({
            code: 'custom',
            path: [i, 'name'],
            message: `"${name}" stands there twice`,
          })
        seen.add(name)
      }
    })

/**
 * A client's schemas are data: the check measures them and looks them over, and never compiles or follows them. The check
 * ends where the message is over its limit, so the cost of the check has a limit too.
 */
function checkSchemas(
  message: Partial<Record<'tools' | 'agActions', readonly z.output<typeof tool>[]>>,
  ctx: z.core.$RefinementCtx,
): void {
  let left = allSchemaBytes
  for (const list of ['tools', 'agActions'] as const)
    for (const [i, { schema }] of (message[list] ?? []).entries()) {
      const { fault, bytes } = argumentsFault(schema)
      left -= bytes
      const tooMuch = `the schemas of a message are larger than ${allSchemaBytes} bytes together`
      const issue =
        fault === undefined ? tooMuch : `it is not a JSON Schema that is taken: ${fault}`
      if (fault !== undefined || left < 0)
        ctx.addIssue({ code: 'custom', path: [list, i, 'schema'], message: issue })
      if (left < 0) return
    }
}

/** A user's message and what the turn may use. */
export const messageInput = z
  .looseObject({
    sessionId,
    message: messageText,
    requestId: uuid.optional(),
    newSession: z.boolean('expected true or false').optional(),
    stream: z.boolean().default(true),
    model: modelName.optional(),
    timezone: z
      .string()
      .max(100)
      .refine(isTimeZone, 'expected an IANA time zone such as "Africa/Lusaka"')
      .optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
    attachments: attachmentList.optional(),
    approvals: z.boolean('expected true or false').optional(),
    tools: toolList(tool).optional(),
    agActions: toolList(tool.extend({ hasRender: z.boolean().optional() })).optional(),
  })
  .superRefine(checkSchemas)
  .refine(({ newSession, sessionId }) => !newSession || uuid.safeParse(sessionId).success, {
    path: ['sessionId'],
    error: 'expected a UUID of the client’s for a new session',
  })
/** A message as the edge hands it on. */
export type MessageInput = z.output<typeof messageInput>

/** The tools of a client that a plugin hands on; the same rules hold for them. */
export const handedTools = z.object({ tools: toolList(tool) }).superRefine(checkSchemas)

const known = new Set(Object.keys(messageInput.shape))

/** Keys of a body that mean nothing here. */
export const unknownKeys = (input: MessageInput): string[] =>
  Object.keys(input).filter((key) => !known.has(key))

const count = (most: number, usual: number) =>
  z.coerce.number().int().min(1).max(most).default(usual)

/** A whole conversation. */
export const historyInput = z.object({ sessionId, origin })
/** A session. */
export const idInput = z.object({ id: sessionId })
const flag = z
  .enum(['true', 'false'], 'expected true or false')
  .transform((text) => text === 'true')
/** A page of the caller's sessions. */
export const sessionListInput = z.object({
  limit: count(100, 20),
  offset: z.coerce.number().int().min(0).default(0),
  cursor: z.string().min(1).max(500).optional(),
  archived: flag.optional(),
  branches: z.literal('newest', 'expected "newest"').optional(),
  q: z
    .string()
    .trim()
    .min(2, 'expected 2 to 200 characters')
    .max(200, 'expected 2 to 200 characters')
    .optional(),
})
const messageId = z.string().min(1).max(200)
const stepNumber = z.number().int().min(0)
/** Where a conversation is to branch off: at one place. */
export const forkInput = z
  .object({
    id: sessionId,
    before: messageId.optional(),
    after: messageId.optional(),
    run: runId.optional(),
    step: stepNumber.optional(),
    title: z.string().min(1).max(200).optional(),
    branch: z.boolean('expected true or false').optional(),
  })
  .superRefine(({ before, after, run, step }, ctx) => {
    const places = [before, after, run ?? step].filter((place) => place !== undefined)
    const isHalf = (run === undefined) !== (step === undefined)
    if (places.length === 1 && !isHalf) return
    const message = 'expected one place: "before" or "after" a message, or "run" with its "step"'
    ctx.addIssue({ code: 'custom', path: [], message })
  })
/** What a user says of a conversation. */
export const sessionChangeInput = z.object({
  id: sessionId,
  title: z.string().max(2_000).nullable().optional(),
  pinned: z.boolean('expected true or false').optional(),
  archived: z.boolean('expected true or false').optional(),
})
/** The step of a run at which a session's state is read; without one, as it is now. */
export const stateInput = z
  .object({
    id: sessionId,
    run: runId.optional(),
    step: z.coerce.number().int().min(0).optional(),
  })
  .refine(({ run, step }) => (run === undefined) === (step === undefined), {
    message: 'expected "run" with its "step"',
  })
/** A page of a conversation. */
export const pageInput = z.object({
  id: sessionId,
  limit: count(200, 50),
  origin,
  before: z.string().min(1).optional(),
  after: z.string().min(1).optional(),
})
/** What is to be loaded into a session. */
export const capabilitiesInput = z.object({
  id: sessionId,
  names: z.array(z.string().min(1).max(100)).min(1).max(100),
})
/** A run, and the number of the event after which it is read. */
export const runInput = z.object({
  runId,
  after: z.coerce.number().int().min(0).optional(),
})
/** A page of the runs of a session, the newest first. */
export const runListInput = z.object({
  id: sessionId,
  limit: count(50, 20),
  before: z.coerce.number().int().min(1).optional(),
})
/** The trace of a run. */
export const traceInput = z.object({
  runId,
  text: z.enum(['on', 'off']).default('on').describe('off: names and figures without any words'),
})
/** A person's decision on the call that a run waits with. */
export const resumeInput = z
  .object({
    runId,
    decision: z.enum(['approve', 'reject', 'edit']),
    args: z.unknown().optional(),
  })
  .superRefine(({ decision, args }, ctx) => {
    const isObject = typeof args === 'object' && args !== null && !Array.isArray(args)
    if (decision === 'edit' && !isObject)
      ctx.addIssue({ code: 'custom', path: ['args'], message: 'expected the edited arguments' })
  })
/** A page of the quarantined runs. */
export const quarantineInput = z.object({
  status: z.literal('quarantined', 'expected "quarantined": no other runs are listed'),
  limit: count(200, 50),
  offset: z.coerce.number().int().min(0).default(0),
})
/** A quarantined run. */
export const retryInput = z.object({ runId })
/** What a client made of a call of its own tool. */
export const toolResultInput = z.object({
  runId,
  toolCallId: z.string().min(1).max(200),
  result: z.unknown().optional(),
  error: z.string().max(10_000).optional(),
})
/** Which run a Stop means. */
export const abortInput = z.object({ sessionId, requestId: uuid.optional() })
