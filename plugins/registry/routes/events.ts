import { route, seesAny } from '../context.ts'
import { onlyKnown } from '../reading/known-parameters.ts'
import { feedSchema, lastEventId } from '../reading/query.ts'
import { invalid } from '../refusal.ts'

/** The feed of changes. */
export const eventsRoutes = {
  'GET /v1/events': route({
    auth: 'bearer',
    own: seesAny,
    summary: 'The changes as Server-Sent Events; Last-Event-ID goes on where a reader left off.',
    answers: { 200: ['text/event-stream'] },
    input: onlyKnown(feedSchema),
    async run({ after, ...wanted }, ctx) {
      const { feed, readers } = await ctx.self.registry()
      const header = ctx.koa.get('Last-Event-ID')
      const from = header === '' ? after : readEventId(header)
      return feed.follow(
        from,
        (change) =>
          (wanted.did === undefined || change.did === wanted.did) &&
          (wanted.type === undefined || change.type === wanted.type) &&
          (wanted.kind === undefined || change.kind === wanted.kind),
        ctx.signal,
        () => readers.still(ctx),
      )
    },
  }),
}

function readEventId(header: string): number {
  const read = lastEventId.safeParse(header)
  if (read.success) return read.data
  throw invalid('Last-Event-ID', read.error.issues[0]?.message ?? 'not an id')
}
