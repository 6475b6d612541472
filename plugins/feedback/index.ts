import { Readable } from 'node:stream'
import { z } from 'zod'
import { definePlugin, RuntimeError, type PluginSessions } from '#core'
import * as book from './book.ts'
import { migrations, type FeedbackRow } from './tables.ts'

const rating = z.enum(['up', 'down'])
const id = z.string().min(1).max(200)

const said = z.strictObject({
  sessionId: id.max(100),
  messageId: id,
  rating: rating.nullable().describe('null takes it back'),
  tags: z.array(z.string().trim().min(1).max(40)).max(8).default([]),
  comment: z.string().trim().max(2_000).default(''),
  share: z.boolean().default(false).describe('Lets the operator read the comment and the answer'),
})

export default definePlugin({
  name: 'feedback',
  version: '0.1.0',
  summary: 'What users think of single answers: a thumb, tags and a comment.',
  tags: ['feedback', 'rating', 'quality'],
  visibility: 'silent',
  stability: 'beta',
  category: 'core',

  migrations,

  facts: () => ({ feedback: true }),

  jobs: {
    sweep: { every: '6h', run: (_, { db, now }) => book.sweep(db, now()) },
  },

  userData: {
    async *export(did, { db }) {
      for await (const { did: _, share, tags, plugins, at, ...row } of book.all(db, { did }))
        yield {
          kind: 'feedback',
          ...row,
          share: share === 1,
          tags: JSON.parse(tags),
          plugins: JSON.parse(plugins),
          at: new Date(at).toISOString(),
        }
    },
    async erase(did, { db }) {
      return { erased: { feedback: await book.erase(db, did) } }
    },
  },

  routes: {
    'POST /feedback': {
      summary: 'Says what the caller thinks of an answer; the last word counts.',
      input: said,
      output: z.object({ messageId: z.string(), rating: rating.nullable() }),
      limit: { max: 60, perMs: 60_000 },
      async run({ sessionId, messageId, ...words }, { db, sessions, user, now }) {
        const { did } = user
        const message = await sessions.message({ user: { did }, session: sessionId, id: messageId })
        if (!message)
          throw new RuntimeError('NOT_FOUND', 'The caller has no such message.', {
            hint: 'Take the ids from GET /sessions/:id/messages.',
          })
        if (message.by !== 'oracle')
          throw new RuntimeError('INVALID_INPUT', 'Only an answer of the oracle can be rated.', {
            details: [{ path: 'messageId', message: 'is not an answer' }],
          })
        if (words.rating === null) await book.remove(db, { did, sessionId, messageId })
        else
          await book.put(db, {
            did,
            session_id: sessionId,
            message_id: messageId,
            rating: words.rating,
            tags: JSON.stringify(words.tags),
            comment: words.comment,
            share: words.share ? 1 : 0,
            model: message.model ?? null,
            plugins: JSON.stringify(message.plugins),
            at: now().getTime(),
          })
        return { messageId, rating: words.rating }
      },
    },
    'GET /feedback/mine': {
      summary: 'What the caller has said of the answers of a session.',
      input: z.object({ sessionId: id.max(100) }),
      output: z.object({ feedback: z.array(z.object({ messageId: z.string(), rating })) }),
      run: async ({ sessionId }, { db, user }) => ({
        feedback: await book.ofSession(db, user.did, sessionId),
      }),
    },
    'GET /feedback': {
      auth: 'operator',
      summary: 'What users have said of answers, a line each, the oldest first.',
      answers: { 200: ['application/x-ndjson'] },
      input: z.object({
        since: z.iso.datetime({ offset: true }).or(z.iso.date()).optional(),
        rating: rating.optional(),
      }),
      run({ since, rating: wanted }, { db, sessions, koa }) {
        koa.set('Cache-Control', 'no-store')
        koa.type = 'application/x-ndjson'
        const rows = book.all(db, {
          ...(since !== undefined && { since: Date.parse(since) }),
          ...(wanted && { rating: wanted }),
        })
        return Readable.from(lines(rows, sessions))
      },
    },
  },
})

/** Feedback as its operator reads it: of whom, and in what words, only where the user shares that. */
async function* lines(
  rows: AsyncGenerator<FeedbackRow>,
  sessions: PluginSessions,
): AsyncGenerator<string> {
  for await (const row of rows) {
    const { did, session_id: sessionId, message_id: messageId } = row
    const shares = row.share === 1
    // An answer that is gone, or was taken back, is not kept here.
    const answer = shares
      ? await sessions.message({ user: { did }, session: sessionId, id: messageId })
      : undefined
    yield `${JSON.stringify({
      at: new Date(row.at).toISOString(),
      sessionId,
      messageId,
      rating: row.rating,
      tags: JSON.parse(row.tags),
      ...(row.model !== null && { model: row.model }),
      plugins: JSON.parse(row.plugins),
      ...(shares && { comment: row.comment, answer: answer?.text ?? null }),
    })}\n`
  }
}
