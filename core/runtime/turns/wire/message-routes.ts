import { createHash } from 'node:crypto'
import { RuntimeError } from '../../../errors.ts'
import { clientNetwork } from '../../http/limits/client-address.ts'
import { keyOfAnother } from '../../http/limits/idempotency.ts'
import { proofOf } from '../../http/routes/access.ts'
import type { Started } from '../carry/intake.ts'
import { failEarly, setIds, streamOf, wholeReply } from './answers.ts'
import { abortInput, type MessageInput, messageInput, unknownKeys } from './input.ts'
import type { RouteParts } from './routes.ts'
import { proved, userRoute, type UserContext } from './user-route.ts'

/** The routes of messages: say something, and stop what comes of it. */
export function messageRoutes(parts: RouteParts) {
  const { runs, streams } = parts
  return {
    'POST /messages/:sessionId': userRoute(
      'Says something and streams what comes of it.',
      messageInput,
      async (input, ctx) => {
        // Refused before the turn begins: a client that may not read the turn must be able to send the message again.
        if (input.stream) streams?.demand(clientNetwork(ctx.koa.ip))
        const named = nameOfKey(input, ctx)
        const sending = () =>
          named === undefined ? send(parts, input, ctx) : sendOnce(parts, input, named, ctx)
        const started = await proved(ctx, () => sendInto(parts, input, ctx, sending))
        setIds(ctx, started)
        if (!input.stream) return wholeReply(parts, started, ctx)
        try {
          await failEarly(started.live)
        } catch (error) {
          if (named !== undefined) await leaveName(parts, started)
          throw error
        }
        // Without `live` an earlier request has begun this turn.
        if (named !== undefined && !started.live) ctx.koa.set('Idempotency-Replayed', 'true')
        return streamOf(runs, started.runId, 0, ctx)
      },
      { 200: ['text/event-stream', 'application/json'] },
    ),
    'POST /messages/abort': userRoute(
      'Ends the run of a conversation.',
      abortInput,
      async ({ sessionId, requestId }, { user }) => ({
        success: await runs.abort(user.did, sessionId, requestId),
      }),
    ),
  }
}

/**
 * The request id of a message that streams and has none of its own, made of its Idempotency-Key. A stream is not kept as an
 * answer, so a repeat finds the run of the first request instead.
 */
function nameOfKey({ stream, requestId }: MessageInput, { koa, user }: UserContext) {
  const key = koa.get('Idempotency-Key')
  if (key === '' || !stream || requestId !== undefined) return undefined
  const hash = createHash('sha256').update(`${user.did}\n${key}`).digest('hex')
  // The form of a UUID of version 8, which is for makers of their own: clients stop a turn by its id, and ids are UUIDs.
  const parts = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(12, 15)}`]
  return [...parts, `8${hash.slice(15, 18)}`, hash.slice(18, 30)].join('-')
}

/** Sends a message under the name that its Idempotency-Key gives it. What had the name before must be the same message. */
async function sendOnce(
  parts: RouteParts,
  input: MessageInput,
  requestId: string,
  ctx: UserContext,
): Promise<Started> {
  try {
    const started = await send(parts, { ...input, requestId }, ctx)
    if (started.sessionId === input.sessionId) return started
  } catch (error) {
    const isOther = error instanceof RuntimeError && error.code === 'REQUEST_ID_REUSED'
    if (!isOther) throw error
  }
  throw keyOfAnother()
}

/** Takes its name from a run whose failure is the answer, for a key remembers no such answer: a repeat begins a turn. */
async function leaveName({ db }: RouteParts, { runId }: Started): Promise<void> {
  await db.updateTable('kernel_runs').set({ request_id: runId }).where('id', '=', runId).execute()
}

/** Sends a message into its session, which it makes where the client asks for that. A session whose turn is refused goes again. */
async function sendInto(
  { runs }: RouteParts,
  { newSession, sessionId }: MessageInput,
  { user, koa }: UserContext,
  sending: () => Promise<Started>,
): Promise<Started> {
  if (!newSession) return sending()
  await runs.mayTalk(user)
  const begun = await runs.sessions.begin(user.did, sessionId, proofOf(koa))
  try {
    return await sending()
  } catch (error) {
    if (begun.isNew) await runs.discardSession(user.did, begun.sessionId)
    throw error
  }
}

/** Makes the parsed body into the request of a turn, and has the turn begin. */
async function send(
  { runs, log, checkRequest }: RouteParts,
  input: MessageInput,
  ctx: UserContext,
): Promise<Started> {
  const ignored = unknownKeys(input)
  if (ignored.length > 0) log.debug({ keys: ignored }, 'Keys of a message were ignored')
  const { sessionId, requestId, message, model, timezone, metadata, attachments } = input
  const { tools, agActions, approvals } = input
  const request = { message, model, timezone, metadata, attachments, approvals, tools, agActions }
  checkRequest?.(request)
  const address = clientNetwork(ctx.koa.ip)
  return runs.send({
    user: ctx.user,
    sessionId,
    requestId,
    request,
    address,
    koa: ctx.koa,
    proof: proofOf(ctx.koa),
  })
}
