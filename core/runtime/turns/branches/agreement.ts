import type { SaidBefore } from '../../../plugin.ts'
import { isNote, messageOf, noteOf } from '../journal/steps.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { bareAnswer, questionCode } from '../waiting/in-words.ts'

/** How what a client believes was said goes with what a session has. */
export type Agreement =
  | { readonly is: 'same' }
  | { readonly is: 'other' }
  /** The client's is a beginning of the session's, which goes on with this message. */
  | { readonly is: 'shorter'; readonly before: string }

/** How many rows of a session are compared; a session that has more is taken for another one. */
const mostRows = 20_000

/** What one side said in one go. Spaces do not count, and an assistant's words do not end with a step of its turn. */
interface Unit {
  readonly role: SaidBefore['role']
  text: string
  /** The id of its first message. */
  readonly first: string
  /** The words were cut short: each side may have more or fewer of them. */
  isPartial?: boolean
}

/** Compares what a client believes was said in a session with what was. */
export async function agreementOf(
  db: RunDatabase,
  sessionId: string,
  lines: readonly SaidBefore[],
): Promise<Agreement> {
  const rows = await db
    .selectFrom('kernel_steps')
    .select(['kind', 'body'])
    .where('session_id', '=', sessionId)
    .where('kind', 'in', ['user', 'assistant', 'note'])
    .orderBy('position')
    .limit(mostRows + 1)
    .execute()
  if (rows.length > mostRows) return { is: 'other' }
  const ours = unitsOf(rows)
  const theirs = believed(lines)
  if (theirs.length > ours.length) return { is: 'other' }
  for (const [i, unit] of theirs.entries()) if (!isAlike(ours[i], unit)) return { is: 'other' }
  const next = ours[theirs.length]
  return next ? { is: 'shorter', before: next.first } : { is: 'same' }
}

function isAlike(ours: Unit | undefined, theirs: Unit): boolean {
  if (ours?.role !== theirs.role) return false
  if (ours.text === theirs.text) return true
  return (
    ours.isPartial === true &&
    (ours.text.startsWith(theirs.text) || theirs.text.startsWith(ours.text))
  )
}

const squeezed = (text: string): string => text.replace(/\s+/gu, '')

type Row = Parameters<typeof messageOf>[0] & Parameters<typeof isNote>[0]

function unitsOf(rows: readonly Row[]): Unit[] {
  const units: Unit[] = []
  /** The first message of the assistant's turn, where it had calls and no words. */
  let wordless: string | undefined
  for (const row of rows) {
    const last = units.at(-1)
    if (isNote(row)) {
      const { waits, partial } = noteOf(row)
      if (waits?.line) add(units, 'assistant', squeezed(waits.line), wordless ?? '')
      if (partial && last?.role === 'assistant') last.isPartial = true
      continue
    }
    const message = messageOf(row)
    if (message.role === 'user') {
      wordless = undefined
      add(units, 'user', squeezed(message.content), message.id)
    } else if (message.role === 'assistant' && !('said' in message)) {
      add(units, 'assistant', squeezed(message.content), wordless ?? message.id)
      wordless ??= message.id
    }
  }
  return units
}

function add(units: Unit[], role: Unit['role'], text: string, first: string): void {
  if (text === '') return
  const last = units.at(-1)
  if (last?.role === role) last.text += text
  else units.push({ role, text, first })
}

/** The longest answer that may be a bare yes or no. */
const longestAnswer = 60

/** The client's lines. An answer to a question in words began no turn of its own, so the session has no message of it. */
function believed(lines: readonly SaidBefore[]): Unit[] {
  const units: Unit[] = []
  for (const [i, { role, content }] of lines.entries()) {
    const text = squeezed(content)
    const last = units.at(-1)
    const isAnswer =
      role === 'user' &&
      last?.role === 'assistant' &&
      questionCode(last.text) !== undefined &&
      text.length <= longestAnswer &&
      lines[i + 1]?.role === 'assistant' &&
      bareAnswer(content, last.text) !== undefined
    if (!isAnswer) add(units, role, text, '')
  }
  return units
}

/** The branch of a conversation that was made last; the session itself where it has none. */
export async function newestBranch(
  db: RunDatabase,
  did: string,
  sessionId: string,
): Promise<string> {
  const row = await db
    .selectFrom('kernel_sessions')
    .select('id')
    .where('did', '=', did)
    .where('family', '=', sessionId)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()
  return row?.id ?? sessionId
}
