import {
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Dialect,
} from 'kysely'
import type { AnyJobs, AnyPlugin } from '../../core/plugin.ts'
import { planBoot } from '../../core/runtime/boot/plan.ts'
import { RunGates } from '../../core/runtime/turns/gates/gates.ts'
import { noModels } from './no-models.ts'
import { silent } from './silent-log.ts'

/** A database that has nothing. */
const dialect: Dialect = {
  createAdapter: () => new SqliteAdapter(),
  createDriver: () => new DummyDriver(),
  createIntrospector: (db) => new SqliteIntrospector(db),
  createQueryCompiler: () => new SqliteQueryCompiler(),
}

/** The gates of plugins for a server without plugins, with another time in which they must decide. */
export function askedGates(plugins: readonly AnyPlugin[], admitMs: number): RunGates {
  const { records, faults } = planBoot({ plugins, features: {}, source: {}, kernelRoutes: [] })
  for (const fault of faults) throw fault
  const none = () => {
    throw new Error('This server has no plugins that could do so.')
  }
  const jobs: AnyJobs = { later: none, cancel: none, within: () => jobs }
  for (const record of records) {
    record.state = 'loaded'
    record.base = {
      env: {},
      log: silent,
      self: undefined,
      plugins: {},
      fetch: none,
      db: new Kysely({ dialect }),
      jobs,
      now: () => new Date(),
      turns: {
        start: none,
        resume: none,
        events: none,
        open: none,
        list: none,
        abort: none,
        redact: none,
        follow: none,
        cut: none,
      },
      sessions: {
        say: none,
        ensure: none,
        message: none,
        messages: none,
        shared: none,
        delete: none,
      },
      rooms: { read: none, update: none, changed: none },
      ...noModels,
    }
    if (typeof record.definition.runs === 'object') record.runs = record.definition.runs
  }
  return new RunGates({ records, admitMs })
}
