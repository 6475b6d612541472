import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import type { AnyRoute, RouteContext, Schema, User } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'
import { lastEventId } from '../http/routes/last-event-id.ts'
import { routeOf } from '../http/routes/route-of.ts'
import type { Notices } from './notices.ts'

/** How long a stream of events lasts at most. It also ends with the token that opened it; then the client shows a new token. */
const longestStreamMs = 3_600_000
const mostIds = 1_000
const mostPlugins = 200

const number = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)
const numberInQuery = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER)

const eventsInput = z.object({
  after: numberInQuery
    .optional()
    .describe('As Last-Event-ID: the number of the last notice that was read'),
})
const listInput = z.object({
  unread: z.stringbool().default(false).describe('Only what has not been seen'),
  limit: z.coerce.number().int().min(1).max(100).default(50),
  before: numberInQuery.optional().describe('The number of the oldest notice of the page before'),
})
const seenInput = z
  .object({
    ids: z.array(number).min(1).max(mostIds).optional(),
    sessionId: z.string().min(1).max(200).optional(),
    upTo: number.optional(),
  })
  .refine(
    ({ ids, sessionId, upTo }) =>
      [ids, sessionId, upTo].filter((given) => given !== undefined).length === 1,
    'expected one of ids, sessionId and upTo',
  )
const mutedInput = z.object({
  plugins: z.array(z.string().min(1).max(100)).max(mostPlugins),
})

const noticeShape = z.object({
  id: z.number(),
  kind: z.enum(['say', 'ended', 'failed', 'asks', 'job']),
  plugin: z.string(),
  title: z.string(),
  text: z.string().describe('At most 200 characters'),
  sessionId: z.string().optional(),
  runId: z.string().optional(),
  createdAt: z.string(),
  seenAt: z.string().optional(),
})
const unreadShape = z.object({ unread: z.number().describe('How many notices have not been seen') })
const mutedShape = z.object({ plugins: z.array(z.string()) })

/** What the routes of notices are made of. */
export interface NoticeRoutesOptions {
  readonly notices: Notices
  /** The names of the app's plugins. */
  readonly plugins: readonly string[]
  readonly isRevoked: (cids: readonly string[]) => boolean | Promise<boolean>
}

/** The keys of the routes of notices. */
export const noticeRouteKeys = [
  'GET /events',
  'GET /notices',
  'POST /notices/seen',
  'GET /notices/muted',
  'PUT /notices/muted',
] as const

/** The routes by which a user reads notices and hints of all sessions, as events and as a list. */
export function noticeRoutes(
  options: NoticeRoutesOptions,
): Record<(typeof noticeRouteKeys)[number], AnyRoute> {
  const { notices, plugins } = options
  return {
    'GET /events': ofUser({
      summary: 'Streams what goes on in all conversations of the caller, without end.',
      input: eventsInput,
      answers: { 200: ['text/event-stream'] },
      run: ({ after }, user, ctx) => {
        const last = lastEventId(ctx)
        return streamOf(options, user, last === undefined ? after : Math.max(last, after ?? 0), ctx)
      },
    }),
    'GET /notices': ofUser({
      summary: 'What the caller should know, the newest first.',
      input: listInput,
      output: unreadShape.extend({ notices: z.array(noticeShape) }),
      run: (query, { did }) => notices.list(did, query),
    }),
    'POST /notices/seen': ofUser({
      summary: 'Marks notices as seen: by their numbers, of a conversation, or all up to a number.',
      input: seenInput,
      output: unreadShape,
      run: (seen, { did }) => notices.see(did, seen),
    }),
    'GET /notices/muted': ofUser({
      summary: 'The plugins of which the caller gets no notices.',
      input: z.object({}),
      output: mutedShape,
      run: async (_, { did }) => ({ plugins: await notices.muted(did) }),
    }),
    'PUT /notices/muted': ofUser({
      summary: 'Replaces the list of plugins of which the caller gets no notices.',
      input: mutedInput,
      output: mutedShape,
      async run({ plugins: given }, { did }) {
        // The caller may have read a list with a plugin that the app has lost since; that plugin may stay in the list.
        const known = new Set([...plugins, ...(await notices.muted(did))])
        const unknown = given.filter((name) => !known.has(name))
        if (unknown.length > 0) throw unknownPlugins(unknown, plugins)
        await notices.mute(did, [...new Set(given)])
        return { plugins: await notices.muted(did) }
      },
    }),
  }
}

interface UserRoute<S extends Schema> extends Pick<AnyRoute, 'summary' | 'answers' | 'output'> {
  readonly input: S
  run(input: z.output<S>, user: User, ctx: RouteContext): unknown
}

/** A route that only a signed-in user reaches. */
const ofUser = <S extends Schema>({ run, ...route }: UserRoute<S>): AnyRoute =>
  routeOf<S>({
    ...route,
    run(input, ctx) {
      // The edge lets no caller without a user through to a route without `auth`.
      if (!ctx.user) throw new RuntimeError('UNAUTHORIZED', 'No valid credential came.')
      return run(input, ctx.user, ctx)
    },
  })

function streamOf(
  { notices, isRevoked }: NoticeRoutesOptions,
  user: User,
  after: number | undefined,
  { signal }: RouteContext,
) {
  const { expiresAt, cids } = fieldsIn(user)
  const tokens = Array.isArray(cids) ? cids.map(String) : []
  const leftMs = typeof expiresAt === 'number' ? expiresAt - Date.now() : longestStreamMs
  const reader = notices.read(user.did, after, {
    mayRead: async () => tokens.length === 0 || !(await isRevoked(tokens)),
  })
  const end = () => {
    clearTimeout(over)
    reader.end()
  }
  const over = setTimeout(end, Math.max(0, Math.min(leftMs, longestStreamMs))).unref()
  if (signal.aborted) end()
  // The signal also fires when the server closes; the client goes on at another server.
  else signal.addEventListener('abort', end, { once: true })
  return reader
}

function unknownPlugins(unknown: readonly string[], known: readonly string[]): RuntimeError {
  const named = unknown.slice(0, 10).map((name) => JSON.stringify(name))
  const [first = ''] = unknown
  return new RuntimeError('INVALID_INPUT', `There is no plugin ${named.join(', ')}.`, {
    hint: meant(first, known) || 'GET /capabilities names the plugins.',
    details: [{ path: 'plugins', message: `names no plugin: ${named.join(', ')}` }],
  })
}
