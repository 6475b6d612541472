import { attended, definePlugin, reply } from '#core'
import { z } from 'zod'
import { answer, openOf, tell } from './chat.ts'
import { toUiMessages } from './history.ts'
import { chainOf, replayed } from './replay.ts'
import { bodyBytes, chatInput, idInput } from './request.ts'
import { streamed } from './stream.ts'

const nothing = { 204: [] }

export default definePlugin({
  name: 'ai-sdk',
  version: '1.0.0',
  summary: 'The UI message stream of the AI SDK, for pages with useChat.',
  tags: ['ai sdk', 'useChat', 'chat'],
  visibility: 'silent',
  stability: 'beta',
  category: 'integration',

  setup: ({ tools }) => ({
    tools,
    /** What to paste into a page. */
    connect: (url: string) => ({
      name: 'ai-sdk',
      title: 'Pages with useChat of the AI SDK',
      lines: `new DefaultChatTransport({\n  api: '${url}/ai-sdk/chat',\n  headers: { Authorization: 'Bearer ok_…' },\n})`,
    }),
  }),

  headers: {
    allow: ['X-Alone', 'User-Agent'],
    expose: ['X-Session-Id', 'X-Run-Id', 'X-Vercel-AI-UI-Message-Stream'],
  },

  routes: {
    'POST /ai-sdk/chat': {
      summary: 'A message of a chat; the answer is a UI message stream.',
      answers: { 200: ['text/event-stream'] },
      body: { maxBytes: bodyBytes },
      // A stream is no answer that could be kept: the key is the name of the turn.
      idempotent: true,
      input: chatInput,
      run: (input, { user, turns, models, self: { tools }, koa, signal }) =>
        answer(input, { user, turns, models, tools, koa, signal }),
    },
    'GET /ai-sdk/chat/:id/stream': {
      summary: 'The answer that is being made, from its beginning and on; 204 where none is.',
      answers: { 200: ['text/event-stream'], ...nothing },
      input: idInput,
      async run({ id: session }, { user, turns, self: { tools }, koa, signal }) {
        const { run, sessionId = '' } = (await openOf(turns, user, session)) ?? {}
        if (!run) return reply(204)
        const { runId } = run
        const from = { user, turns, signal: attended({ signal }).reader }
        const chain = await chainOf(from, runId)
        tell(koa, { runId, sessionId })
        const about = { messageId: chain[0] ?? runId, known: new Set<string>() }
        const isQuick = tools.asksNobody({ user })
        return streamed(replayed(from, chain), { ...about, runId, sessionId, isQuick })
      },
    },
    'DELETE /ai-sdk/chat/:id/stream': {
      summary: 'Stops the answer that is being made.',
      answers: nothing,
      input: idInput,
      async run({ id }, { user, turns }) {
        const { sessionId: session } = await turns.open({ user, session: id, newestBranch: true })
        await turns.abort({ user, session })
        return reply(204)
      },
    },
    'GET /ai-sdk/chat/:id/messages': {
      summary: 'The newest messages of a chat as UI messages, oldest first.',
      input: idInput.extend({
        limit: z.coerce.number().int().min(1).max(1_000).default(200),
        before: z.string().max(40).optional(),
      }),
      async run({ id, limit, before }, { user, turns, sessions }) {
        // A page makes the id of its chat itself: before the first message there is none here.
        const open = await openOf(turns, user, id)
        if (!open) return { messages: [], before: null }
        const { sessionId, waiting } = open
        const page = await sessions.messages({ user, session: sessionId, limit, before })
        return {
          messages: toUiMessages(page.messages, sessionId, waiting),
          before: page.prevCursor,
        }
      },
    },
  },
})
