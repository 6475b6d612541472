import { clientNetwork } from '../../http/limits/client-address.ts'
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
        const started = await proved(ctx, () => sendInto(parts, input, ctx))
        setIds(ctx, started)
        if (!input.stream) return wholeReply(parts, started, ctx)
        await failEarly(started.live)
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

/** Sends a message into its session, which it makes where the client asks for that. A session whose turn is refused goes again. */
async function sendInto(parts: RouteParts, input: MessageInput, ctx: UserContext) {
  if (!input.newSession) return send(parts, input, ctx)
  const { runs } = parts
  const { did } = ctx.user
  await runs.mayTalk(ctx.user)
  const { sessionId, isNew } = await runs.sessions.begin(did, input.sessionId, proofOf(ctx.koa))
  try {
    return await send(parts, input, ctx)
  } catch (error) {
    if (isNew) await runs.discardSession(did, sessionId)
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
