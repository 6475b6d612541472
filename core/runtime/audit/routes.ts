import { Readable } from 'node:stream'
import { sql } from 'kysely'
import { z } from 'zod'
import { RuntimeError } from '../../errors.ts'
import type { AnyRoute, Database } from '../../plugin.ts'
import { fromRow } from './row.ts'
import type { AuditRow } from './tables.ts'

const rowsPerPage = 500
const mostLines = 10_000

const input = z.object({
  since: z
    .string()
    .max(40)
    .optional()
    .describe('The id of the last line that you have, or an ISO time: later lines follow'),
  limit: z.coerce.number().int().min(1).max(mostLines).default(1_000),
})

/** The key of the route by which an operator reads the table. */
export const auditRouteKeys = ['GET /audit'] as const

/** The route by which an operator reads the table. `db` is undefined where lines are not kept. */
export function auditRoutes(
  db: Database | undefined,
): Record<(typeof auditRouteKeys)[number], AnyRoute> {
  return {
    'GET /audit': {
      auth: 'operator',
      summary: 'Who wrote what, a JSON line for each write, oldest first.',
      answers: { 200: ['application/x-ndjson'] },
      input,
      run(asked, { koa }) {
        const { since = '0', limit } = asked as z.output<typeof input>
        if (db === undefined)
          throw new RuntimeError(
            'NOT_IMPLEMENTED',
            'This server keeps audit lines in the log alone.',
            {
              hint: 'Set AUDIT_TABLE=on to keep audit lines in the database from then on.',
            },
          )
        const from = startOf(since)
        koa.type = 'application/x-ndjson'
        koa.set('Cache-Control', 'no-store')
        return Readable.from(pages(db, from, limit))
      },
    },
  }
}

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Reads `since`: reading begins after an id, or at a time in milliseconds since 1970. */
function startOf(since: string): { readonly after: number } | { readonly at: number } {
  if (/^\d{1,15}$/.test(since)) return { after: Number(since) }
  const at = isoTime.test(since) ? Date.parse(since) : NaN
  if (!Number.isNaN(at)) return { at }
  throw new RuntimeError(
    'BAD_REQUEST',
    `since is neither the id of a line nor a time: "${since}".`,
    { hint: 'Send the last id that you read, such as 17, or a time such as 2026-01-31T12:00:00Z.' },
  )
}

/** The lines page by page. While a slow reader reads, the process holds one page in memory and no transaction. */
async function* pages(
  db: Database,
  start: ReturnType<typeof startOf>,
  limit: number,
): AsyncGenerator<string> {
  const at = 'at' in start ? start.at : 0
  let last = 'at' in start ? await lastBefore(db, at) : start.after
  for (let left = limit; left > 0; left -= rowsPerPage) {
    const { rows } =
      await sql<AuditRow>`select * from kernel_audit where id > ${last} and at >= ${at}
      order by id limit ${Math.min(left, rowsPerPage)}`.execute(db)
    if (rows.length > 0) yield rows.map((row) => `${JSON.stringify(fromRow(row))}\n`).join('')
    last = rows.at(-1)?.id ?? last
    if (rows.length < rowsPerPage) return
  }
}

/** By how many lines the order of ids and the order of times may differ: the clocks of servers differ, and lines wait in batches. */
const mostOutOfOrder = 10_000

/** An id below every line of this time or later. The index of times finds it without reading the table. */
async function lastBefore(db: Database, at: number): Promise<number> {
  const { rows } = await sql<{ first: number | null }>`select min(id) as first from
    (select id from kernel_audit where at >= ${at} order by at limit ${mostOutOfOrder}) as next`.execute(
    db,
  )
  const first = rows[0]?.first ?? null
  return first === null ? Number.MAX_SAFE_INTEGER : first - 1
}
