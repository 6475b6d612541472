import { RuntimeError } from '../../../errors.ts'
import type { RouteContext } from '../../../plugin.ts'
import { created } from '../../http/answer/reply.ts'
import { proofOf } from '../../http/routes/access.ts'
import {
  capabilitiesInput,
  historyInput,
  idInput,
  pageInput,
  runListInput,
  sessionListInput,
} from './input.ts'
import type { RouteParts } from './routes.ts'
import { proved, userRoute, type UserContext } from './user-route.ts'

/** The routes of conversations: begin, list and delete one, read it, and what may be loaded into it. */
export function sessionRoutes(parts: RouteParts) {
  const { runs, transcripts, traces, search, countSearch, loadCapabilities } = parts
  const { sessions } = runs
  return {
    'POST /sessions': {
      summary: 'Begins a conversation.',
      answers: { 201: ['application/json'] },
      async run(_: unknown, context: RouteContext) {
        const ctx = context as UserContext // a route without `auth` is one of a user
        const { user } = ctx
        return proved(ctx, async () => {
          await runs.mayTalk(user)
          const session = await sessions.create(user.did, { proof: proofOf(ctx.koa) })
          return created(`/sessions/${session.sessionId}`, session)
        })
      },
    },
    'GET /sessions': userRoute(
      'The caller’s conversations, the newest first; with `q` those that have its words.',
      sessionListInput,
      async ({ q, ...wish }, { user }) => {
        if (q === undefined) return sessions.list(user.did, wish)
        await countSearch?.(user.did)
        return search.list(sessions, user.did, { ...wish, q })
      },
    ),
    'DELETE /sessions/:id': userRoute(
      'Deletes a conversation and everything in it.',
      idInput,
      async ({ id }, { user }) => {
        await runs.deleteSession(user.did, id)
        return { message: 'The session was deleted.' }
      },
    ),
    'POST /sessions/:id/capabilities': userRoute(
      'Loads capabilities into a conversation by hand.',
      capabilitiesInput,
      async ({ id, names }, { user }) => {
        await runs.mayTalk(user)
        await sessions.demand(user.did, id)
        if (!loadCapabilities)
          throw new RuntimeError('NOT_IMPLEMENTED', 'Capabilities cannot be loaded by hand here.')
        return loadCapabilities({ user, sessionId: id, names })
      },
    ),

    'GET /messages/:sessionId': userRoute(
      'A whole conversation, oldest first.',
      historyInput,
      async ({ sessionId, origin }, { user }) => {
        await sessions.demand(user.did, sessionId)
        return transcripts.all(sessionId, origin)
      },
    ),
    'GET /sessions/:id/messages': userRoute(
      'A page of a conversation: the newest, or those before or after a cursor.',
      pageInput,
      async ({ id, ...page }, { user }) => {
        await sessions.demand(user.did, id)
        return transcripts.page(id, page)
      },
    ),
    'GET /sessions/:id/runs': userRoute(
      'The runs of a conversation, the newest first: what each took and cost.',
      runListInput,
      async ({ id, ...page }, { user }) => {
        await sessions.demand(user.did, id)
        return traces.list(id, page)
      },
    ),
    'GET /sessions/:id/run': userRoute(
      'The run that is under way in a conversation, or waits for a person, if any.',
      idInput,
      async ({ id }, { user }) => {
        await sessions.demand(user.did, id)
        return runs.underway(id)
      },
    ),
  }
}
