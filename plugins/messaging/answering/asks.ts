import type { ServerEvent } from '../device/device.ts'
import type { AsksTable, MessagingDatabase } from '../tables.ts'
import { cleaned } from './words.ts'

/** What a person said to a question whether a tool may run. */
export interface Decision {
  readonly decision: 'approve' | 'reject'
  readonly reason?: string
}

const yes = new Set(['yes', 'y', 'ok', 'ja', '✅', '👍'])
const no = /^(?:no|n|nein|❌|👎)(?:\s*[,:.]?\s*(?:because)?\s*[,:]?\s*(.*))?$/isu
const longestReason = 500
const longestArgs = 1_500

/** What words decide; undefined when they decide nothing. */
export function decisionIn(text: string): Decision | undefined {
  const words = text
    .trim()
    .toLowerCase()
    .replace(/[.!]+$/, '')
  if (yes.has(words)) return { decision: 'approve' }
  const [is, reason = ''] = no.exec(text.trim()) ?? []
  if (is === undefined) return undefined
  const said = reason.trim().slice(0, longestReason).toWellFormed()
  return { decision: 'reject', ...(said !== '' && { reason: said }) }
}

/** What a reaction decides; undefined when it decides nothing. */
export function decisionOf(key: unknown): Decision | undefined {
  if (typeof key !== 'string') return undefined
  const sign = key.replace(/[\uFE0F\u{1F3FB}-\u{1F3FF}]/gu, '')
  if (sign === '✅' || sign === '👍') return { decision: 'approve' }
  if (sign === '❌' || sign === '👎') return { decision: 'reject' }
  return undefined
}

/** The message that asks a person about a call, with the sentence of a tool that has one. */
export function question(
  toolName: string,
  args: Readonly<Record<string, unknown>>,
  wordsOnly: boolean,
  sentence?: string,
): string {
  const told = cleaned(JSON.stringify(args, undefined, 2))
    .slice(0, longestArgs)
    .toWellFormed()
  const shown = sentence === undefined ? told : `${cleaned(sentence)}\n\n${told}`
  const how = wordsOnly ? 'Write yes or no.' : '✅ or yes · ❌ or no'
  return `May I run **${toolName.replace(/[^\w-]/g, '')}**?\n\n\`\`\`\n${shown.replaceAll('```', "'''")}\n\`\`\`\n\n${how}`
}

/** The questions that wait for a person. */
export class Asks {
  readonly #db: MessagingDatabase

  constructor(db: MessagingDatabase) {
    this.#db = db
  }

  async put(ask: AsksTable): Promise<void> {
    await this.#db
      .insertInto('messaging_asks')
      .values(ask)
      .onConflict((on) => on.column('event_id').doNothing())
      .execute()
  }

  /** The question that a reaction is about. */
  of(eventId: unknown): Promise<AsksTable | undefined> {
    return this.#db
      .selectFrom('messaging_asks')
      .selectAll()
      .where('event_id', '=', String(eventId))
      .executeTakeFirst()
  }

  /** The question that waits in a session. */
  in(sessionId: string): Promise<AsksTable | undefined> {
    return this.#db
      .selectFrom('messaging_asks')
      .selectAll()
      .where('session_id', '=', sessionId)
      .orderBy('at', 'desc')
      .executeTakeFirst()
  }

  async ofRun(runId: string): Promise<boolean> {
    const known = await this.#db
      .selectFrom('messaging_asks')
      .select('event_id')
      .where('run_id', '=', runId)
      .executeTakeFirst()
    return known !== undefined
  }

  /** Takes a question away; false when it had been decided before. */
  async take(eventId: string): Promise<boolean> {
    const gone = await this.#db
      .deleteFrom('messaging_asks')
      .where('event_id', '=', eventId)
      .returning('event_id')
      .execute()
    return gone.length > 0
  }
}

/** What a reaction is about: the message and the sign. */
export function annotationOf({
  content,
}: ServerEvent): { eventId: unknown; key: unknown } | undefined {
  const relation: unknown = content['m.relates_to']
  if (typeof relation !== 'object' || relation === null) return undefined
  const { rel_type, event_id, key }: Record<string, unknown> = { ...relation }
  return rel_type === 'm.annotation' ? { eventId: event_id, key } : undefined
}
