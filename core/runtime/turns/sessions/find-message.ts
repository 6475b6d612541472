import { sql } from 'kysely'
import type { FoundMessage } from '../../../plugin.ts'
import { messageOf } from '../journal/steps.ts'
import type { RunDatabase, StepsTable } from '../journal/tables.ts'

/** How many rows may name an id, such as that of a call within it, before the message of the id is given up. */
const mostAlike = 50
/** Of how many answers of a run its tools are told. */
const mostAnswers = 200

/** A row of the journal that is a message. */
interface MessageRow extends Pick<StepsTable, 'kind' | 'body' | 'run_id' | 'created_at'> {
  readonly position: number
}

/** The row of a message in a session; undefined where the session has no message of this id. */
export async function rowOfMessage(
  db: RunDatabase,
  sessionId: string,
  id: string,
): Promise<MessageRow | undefined> {
  const text = JSON.stringify(id).replace(/[\\%_]/g, '\\$&')
  const rows = await db
    .selectFrom('kernel_steps')
    .select(['position', 'body', 'kind', 'run_id', 'created_at'])
    .where('session_id', '=', sessionId)
    .where('kind', 'in', ['user', 'plugin', 'assistant'])
    .where(sql<boolean>`body like ${`%"id":${text}%`} escape '\\'`)
    .orderBy('position')
    .limit(mostAlike)
    .execute()
  const row = rows.find((found) => {
    const message = messageOf(found)
    return 'id' in message && message.id === id
  })
  return row && { ...row, position: Number(row.position) }
}

/** A message of a user’s session as plugins find it; undefined where the user has no such session or message. */
export async function findMessage(
  db: RunDatabase,
  wanted: { readonly did: string; readonly session: string; readonly id: string },
  pluginOf: (tool: string) => string | undefined,
): Promise<FoundMessage | undefined> {
  const { did, session, id } = wanted
  const own = await db
    .selectFrom('kernel_sessions')
    .select('id')
    .where('id', '=', session)
    .where('did', '=', did)
    .executeTakeFirst()
  const row = own && (await rowOfMessage(db, session, id))
  if (!row) return undefined
  const message = messageOf(row)
  const by = row.kind === 'assistant' ? 'oracle' : row.kind === 'plugin' ? 'plugin' : 'user'
  const found = {
    by,
    text: message.content,
    runId: row.run_id,
    at: new Date(Number(row.created_at)),
  } as const
  if (message.role !== 'assistant') return { ...found, tools: [], plugins: [] }
  const answers = await db
    .selectFrom('kernel_steps')
    .select('body')
    .where('session_id', '=', session)
    .where('run_id', '=', row.run_id)
    .where('kind', '=', 'assistant')
    .where('position', '<=', row.position)
    .orderBy('position')
    .limit(mostAnswers)
    .execute()
  const tools = new Set(
    answers.flatMap((answer) => {
      const said = messageOf(answer)
      return said.role === 'assistant' ? (said.toolCalls ?? []).map(({ name }) => name) : []
    }),
  )
  const plugins = new Set([...tools].flatMap((name) => pluginOf(name) ?? []))
  return {
    ...found,
    tools: [...tools],
    plugins: [...plugins],
    ...(message.model !== undefined && { model: message.model }),
  }
}
