import type { CallToolResult } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { faultsOf, RuntimeError, type Turns } from '#core'
import { errorAnswer } from './answers.ts'
import type { Caller } from './caller.ts'

const askInput = z.strictObject({
  message: z.string().min(1).max(200_000),
  session: z.string().min(1).max(200).optional(),
})

const mostNote = 200
const mostText = 256 * 1024

/** The agent itself, as a tool: a turn in a session of the caller, whose words so far are its progress. */
export async function ask(
  args: unknown,
  { user, koa }: Caller,
  turns: Turns,
  { signal, progress }: { signal: AbortSignal; progress(done: number, note: string): void },
): Promise<CallToolResult> {
  const parsed = askInput.safeParse(args)
  if (!parsed.success) {
    const said = faultsOf(parsed.error).map(({ path, message }) => `${path}: ${message}`)
    throw new RuntimeError(
      'INVALID_INPUT',
      `The arguments of "ask" do not fit: ${said.join('; ')}`,
      {
        hint: 'Give "message", and "session" of an earlier answer.',
      },
    )
  }
  const { message, session } = parsed.data
  const turn = turns.start({
    ...{ user, message, koa, signal },
    ...(session !== undefined && { session }),
    metadata: { protocol: 'mcp' },
  })
  // Both are waited for below; a refusal rejects both at once.
  turn.ended.catch(() => undefined)
  const { sessionId } = await turn.begun
  let said = ''
  let pieces = 0
  for await (const { event, data } of turn) {
    if (event !== 'message') continue
    said += data.content
    progress(++pieces, said.slice(-mostNote))
  }
  const { status, text, error } = await turn.ended
  if (status === 'failed' && error)
    return errorAnswer(new RuntimeError(error.code, error.message, { status: 500 }))
  const answer = { text: text.slice(0, mostText), session: sessionId, status }
  return { content: [{ type: 'text', text: answer.text || status }], structuredContent: answer }
}
