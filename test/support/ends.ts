import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { definePlugin } from '../../core/plugin.ts'
import type { RunEnding } from '../../core/plugin.ts'
import type { Store } from '../../core/runtime/store/store.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { RunGates } from '../../core/runtime/turns/gates/gates.ts'

/** What somebody was told of an end, with the reply. Times are text. */
export interface ToldEnd extends Omit<RunEnding, 'reply' | 'startedAt' | 'endedAt'> {
  readonly reply: string
  readonly startedAt: string
  readonly endedAt: string
}

/** The route that shows a book. */
interface BookRoute {
  readonly auth: 'public'
  run(input: unknown, ctx: { readonly db: Store['db'] }): Promise<{ ends: ToldEnd[] }>
}

/**
 * A plugin that writes every end that it is told into a table of its own, in the transaction of the end. The table takes a
 * run twice. `fails` says how often the plugin throws after it has written.
 */
export function endBook(name = 'book', fails = 0) {
  let left = fails
  const plugin = definePlugin({
    name,
    summary: 'Writes ends down.',
    migrations: {
      '001-ends': async (db) => {
        await sql`create table ${sql.table(`${name}_ends`)} (run_id text not null, told text not null)`.execute(
          db,
        )
      },
    },
    routes: {
      [`GET /${name}/ends`]: {
        auth: 'public',
        run: async (_: unknown, { db }: Parameters<BookRoute['run']>[1]) => ({
          ends: await endsIn(db, name),
        }),
      },
    } as Readonly<Record<`GET /${string}`, BookRoute>>,
    runs: {
      async end(run, { db }) {
        const told = JSON.stringify({ ...run, reply: await run.reply() })
        await sql`insert into ${sql.table(`${name}_ends`)} values (${run.runId}, ${told})`.execute(
          db,
        )
        if (left-- > 0) throw new Error('the book is full')
      },
    },
  })
  return { plugin, fail: (times: number) => void (left = times) }
}

/** A part of the kernel that writes every end into the table `kernel_test_ends`, for a server without plugins. */
export function endGates(): RunGates {
  const gates = new RunGates({ records: [] })
  gates.onEnd('test', {
    wants: () => true,
    async end(run, trx) {
      const told = JSON.stringify({ ...run, reply: await run.reply() })
      await sql`insert into kernel_test_ends values (${run.runId}, ${told})`.execute(trx)
    },
  })
  return gates
}

/** Says two words in one step that cost ten tokens and three, and says nothing again that its journal has. */
export const countedEngine: Engine = async (run) => {
  const steps = run.takenOver ? await run.journal.read() : []
  if (steps.length > 0) return { status: 'finished' }
  run.emit('message', { content: 'It is ' })
  run.emit('message', { content: 'done.' })
  const usage = { model: 'test/model', inputTokens: 10, outputTokens: 3 }
  const message = { role: 'assistant', id: randomUUID(), content: 'It is done.', usage } as const
  await run.journal.append({ messages: [message] })
  return { status: 'finished' }
}

/** Makes the table of `endGates`. */
export async function makeEndTable({ db }: Pick<Store, 'db'>): Promise<void> {
  await sql`create table if not exists kernel_test_ends (run_id text not null, told text not null)`.execute(
    db,
  )
}

/** Every end that was told, in the order of their telling. */
export async function endsIn(db: Store['db'], name = 'kernel_test'): Promise<ToldEnd[]> {
  const { rows } = await sql<{
    told: string
  }>`select told from ${sql.table(`${name}_ends`)}`.execute(db)
  return rows.map(({ told }) => JSON.parse(told))
}
