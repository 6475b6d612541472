import { RuntimeError } from '../../../errors.ts'
import type { AnyRunContext } from '../../../plugin.ts'

/**
 * What `begin` and `end` find in place of `sessions`, `turns` and models. Sessions and turns write in a transaction of their
 * own. On SQLite, which takes one writer, that transaction and the one of `begin` or `end` would wait for each other. And
 * when `begin` or `end` is called again, because its transaction did not commit, the words would be said twice. A model takes
 * seconds, for which a transaction must not stay open.
 */
export const inTransaction: Pick<AnyRunContext, 'sessions' | 'turns' | 'models' | 'model'> = {
  sessions: {
    say: async () => refuse('sessions.say'),
    ensure: async () => refuse('sessions.ensure'),
    message: async () => refuse('sessions.message'),
    messages: async () => refuse('sessions.messages'),
    shared: async () => refuse('sessions.shared'),
    delete: async () => refuse('sessions.delete'),
  },
  turns: {
    start: () => refuse('turns.start'),
    resume: () => refuse('turns.resume'),
    events: () => refuse('turns.events'),
    open: async () => refuse('turns.open'),
    list: async () => refuse('turns.list'),
    abort: async () => refuse('turns.abort'),
    redact: async () => refuse('turns.redact'),
    follow: () => refuse('turns.follow'),
    cut: async () => refuse('turns.cut'),
  },
  model: {
    id: 'none',
    stream: () => refuse('model.stream'),
    text: async () => refuse('model.text'),
    object: async () => refuse('model.object'),
  },
  models: { get: () => refuse('models.get'), embed: async () => refuse('models.embed') },
}

function refuse(what: string): never {
  throw new RuntimeError(
    'INTERNAL',
    `${what} cannot be called in runs.begin, runs.end or sessionDeleted.`,
    {
      hint: `Ask for a job with ctx.jobs.later, which belongs to the transaction; the job calls ${what}.`,
    },
  )
}
