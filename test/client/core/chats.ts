import { z } from 'zod'
import { definePlugin } from '#core'
import type { Chat } from '../../../client/core/chat/chat.ts'
import type { TestOracle } from '../oracle.ts'
import { until } from '../page.ts'

/** A plugin whose tool answers and draws a component. */
export const library = definePlugin({
  name: 'library',
  summary: 'Knows books.',
  visibility: 'always',
  tools: {
    find_book: {
      description: 'Finds a book.',
      effect: 'read',
      input: z.object({ title: z.string() }),
      run: ({ title }, ctx) => {
        ctx.emit.component('BookCard', { title })
        return { title, shelf: 7 }
      },
    },
  },
})

/** The messages of a chat, without what differs from run to run. */
export const plain = (chat: Chat) =>
  chat.getSnapshot().messages.map(({ type, content, toolCalls, isComplete }) => ({
    type,
    content,
    isComplete,
    calls: toolCalls?.map(({ name, args, status, output }) => ({ name, args, status, output })),
  }))

/** A chat that somebody looks at, from its first history on. */
async function looked(chat: Chat): Promise<Chat> {
  chat.subscribe(() => {})
  await until(() => !chat.getSnapshot().isLoading)
  return chat
}

/** A chat that somebody looks at, of a new session where none is given. */
export async function chatOf(
  oracle: TestOracle,
  sessionId?: string,
  client = oracle.tab(),
): Promise<Chat> {
  const { oracleDid, overrides } = oracle
  return looked(
    client.chat({ oracleDid, overrides, sessionId: sessionId ?? (await oracle.session()) }),
  )
}

/** How the last run of a chat that is ready ended. */
export const ended = (chat: Chat) =>
  chat.getSnapshot().status === 'ready' && chat.getSnapshot().run.ended
