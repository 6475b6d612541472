import { RuntimeError } from '../../../errors.ts'
import type { AnyRunContext } from '../../../plugin.ts'

/**
 * What `begin` and `end` find in place of `sessions` and `turns`. Both write in a transaction of their own. On SQLite,
 * which takes one writer, that transaction and the one of `begin` or `end` would wait for each other. And when `begin` or
 * `end` is called again, because its transaction did not commit, the words would be said twice.
 */
export const inTransaction: Pick<AnyRunContext, 'sessions' | 'turns'> = {
  sessions: {
    say: async () => refuse('sessions.say'),
    ensure: async () => refuse('sessions.ensure'),
  },
  turns: { start: () => refuse('turns.start') },
}

function refuse(what: string): never {
  throw new RuntimeError('INTERNAL', `${what} cannot be called in runs.begin or runs.end.`, {
    hint: `Ask for a job with ctx.jobs.later, which belongs to the transaction; the job calls ${what}.`,
  })
}
