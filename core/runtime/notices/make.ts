import { randomUUID } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import type { Notice } from '../../plugin.ts'
import type { Store } from '../store/store.ts'
import {
  noticeColumns,
  type NoticeDatabase,
  noticeLimits,
  type NoticeRow,
  toNotice,
} from './tables.ts'
import { channelOfUser, nameOnChannel, wordOfNotice } from './words.ts'
import { tellsThat } from '../store/channels/channels.ts'

/** A notice to be made. Its title and its text may have any length: what is over 200 characters is cut off. */
export interface NewNotice extends Omit<Notice, 'id' | 'user' | 'createdAt'> {
  /** Whose notice it is. */
  readonly did: string
  /** Of all notices to this user with one key only the first is made. A notice without a key is always made. */
  readonly key?: string
}

/** How many characters of a title and of a text are kept. */
const longest = 200

/** The kind of the database, and its clock. */
export interface NoticeClock {
  readonly kind: Store['kind']
  readonly now: () => RawBuilder<number>
}

/**
 * Makes a notice within a transaction; undefined when the user has muted the plugin, or has a notice of this key. On
 * PostgreSQL the same transaction tells the replicas, which hear of the notice when it commits.
 */
export async function makeNotice(
  { kind, now }: NoticeClock,
  trx: NoticeDatabase,
  asked: NewNotice,
): Promise<Notice | undefined> {
  const { did, plugin, sessionId, runId } = asked
  const key = asked.key ?? randomUUID()
  const { rows: reasons } = await sql`
    select 1 as reason from kernel_notice_mutes where did = ${did} and plugin = ${plugin}
    union all select 2 as reason from kernel_notices where did = ${did} and key = ${key}`.execute(
    trx,
  )
  if (reasons.length > 0) return undefined
  // The clock's time is the number unless the newest number is as large. So no number comes twice, also after a sweep.
  const { rows: numbers } = await sql<{ newest: number }>`
    insert into kernel_notice_users (did, newest) values (${did}, ${now()})
    on conflict (did) do update set newest = case when excluded.newest > kernel_notice_users.newest
      then excluded.newest else kernel_notice_users.newest + 1 end
    returning newest`.execute(trx)
  const id = numbers[0]?.newest
  if (id === undefined) throw new Error('The database returned no number for a notice.')
  const made = sql`insert into kernel_notices (${noticeColumns}) values (${did}, ${id}, ${key}, ${asked.kind},
      ${plugin}, ${cut(asked.title)}, ${cut(asked.text)}, ${sessionId ?? null}, ${runId ?? null}, ${now()}, null)
    on conflict (did, key) do nothing returning ${noticeColumns}`
  const telling =
    kind === 'postgres'
      ? sql<NoticeRow>`with made as (${made})
          select made.*, ${tellsThat(channelOfUser(nameOnChannel(did)), wordOfNotice(did))} as told from made`
      : sql<NoticeRow>`${made}`
  const [row] = (await telling.execute(trx)).rows
  if (row === undefined) return undefined
  await sql`delete from kernel_notices where did = ${did} and id <= (select id from kernel_notices
    where did = ${did} order by id desc limit 1 offset ${noticeLimits.perUser})`.execute(trx)
  return toNotice(row)
}

/** The first characters of a text. An emoji counts as one, and is never cut in two. */
function cut(text: string): string {
  // PostgreSQL keeps no U+0000. Of a long text only the beginning is worked on: a character has at most two code units.
  const safe = text
    .slice(0, 4 * longest)
    .replaceAll('\0', '')
    .toWellFormed()
    .trim()
  const characters = Array.from(safe)
  if (characters.length <= longest) return safe
  return `${characters.slice(0, longest - 1).join('')}…`
}
