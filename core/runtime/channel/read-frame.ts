import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { fieldsIn } from '../base/fields.ts'
import { parseJson } from '../base/safe-json.ts'
import type { ToolAnswer, Tokens } from './framing.ts'

/** The faults that `readFrame` mends, where a request would be refused: what a page hands back may end in half an emoji. */
const mendable = new Set(['UNSAFE_TEXT', 'UNSAFE_KEY'])

/** The JSON of a frame; undefined when it is none, or nests too deep. */
export function readFrame(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    if (error instanceof RuntimeError && mendable.has(error.code)) return JSON.parse(text, mended)
    return undefined
  }
}

function mended(key: string, value: unknown): unknown {
  if (key === '__proto__' || key === 'constructor') return undefined
  return typeof value === 'string' ? value.replaceAll('\0', '').toWellFormed() : value
}

const id = z.string().regex(/^[^\p{Cc}]{1,200}$/u)
const token = z.string().max(10_000).optional()

const auth = z.object({ invocation: token, ucanDelegation: token })
const answer = z.object({
  toolCallId: id,
  sessionId: id.optional().catch(undefined),
  result: z.unknown().optional(),
  error: z.unknown().optional(),
})

/** The tokens of a handshake; none when it is malformed. */
export function readTokens(value: unknown): Tokens {
  const parsed = auth.safeParse(value)
  if (!parsed.success) return {}
  const { invocation, ucanDelegation } = parsed.data
  return { invocation: invocation || undefined, delegation: ucanDelegation || undefined }
}

/** Whether a client shows approvals; undefined when the client does not say, null when the value is no boolean. */
export function readApprovals(value: unknown): boolean | undefined | null {
  const { approvals } = fieldsIn(value)
  return approvals === undefined || typeof approvals === 'boolean' ? approvals : null
}

/**
 * Whether a client wants the events of its user; undefined when it does not, null when what it says is none of true,
 * false and a number to go on after.
 */
export function readUserWish(value: unknown): { after?: number } | undefined | null {
  const { user, after } = fieldsIn(value)
  if (user === undefined || user === false) return undefined
  if (user !== true) return null
  if (after === undefined) return {}
  return typeof after === 'number' && Number.isSafeInteger(after) && after >= 0 ? { after } : null
}

/** How far a client has read the history, by the cursor that the history came with; undefined when the client names none. */
export function readCursor(value: unknown): number | undefined {
  const { cursor } = fieldsIn(value)
  return typeof cursor === 'string' && /^\d{1,15}$/.test(cursor) ? Number(cursor) : undefined
}

/** The name of a session as a client gives it. */
export function readSessionId(value: unknown): string | undefined {
  return id.safeParse(value).data
}

/** What a client made of a call; undefined when the frame does not say which call. */
export function readToolAnswer(value: unknown): ToolAnswer | undefined {
  const parsed = answer.safeParse(value)
  if (!parsed.success) return undefined
  const { toolCallId, sessionId, result, error } = parsed.data
  return { toolCallId, sessionId, result, error: errorText(error) }
}

/** Clients send a sentence, an object that holds one, or nothing. */
function errorText(error: unknown): string | undefined {
  if (error === undefined || error === null || error === '') return undefined
  const text = typeof error === 'string' ? error : JSON.stringify(error)
  return text.slice(0, 10_000).toWellFormed()
}
