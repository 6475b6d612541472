import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Log, Migration } from '../../core/plugin.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { killChildren, startChild } from '../support/child.ts'
import { freshDatabase } from '../support/database.ts'
import { describeWith } from '../support/services.ts'
import { silent } from '../support/silent-log.ts'
import { slowMigrations } from '../support/slow-migrations.ts'

const create =
  (table: string): Migration =>
  (db) =>
    db.schema.createTable(table).addColumn('id', 'integer').execute()

/** What every database does alike. `where` opens one and the same empty database again and again. */
function behavesAlike(
  name: string,
  empty: () => Promise<{ open(log?: Log): Promise<Store>; drop(): Promise<void> }>,
) {
  describe(name, () => {
    let database: Awaited<ReturnType<typeof empty>>
    let store: Store
    beforeEach(async () => {
      database = await empty()
      store = await database.open()
    })
    afterEach(async () => {
      await store.close()
      await database.drop()
    })
    const tables = async () =>
      (await store.db.introspection.getTables()).map((table) => table.name).sort()

    test('migrations run once, in the order of their names, and are remembered', async () => {
      const order: string[] = []
      const step =
        (name: string): Migration =>
        async () =>
          void order.push(name)
      const migrations = { '010-c': step('c'), '002-b': step('b'), '001-a': step('a') }
      expect(await store.migrate('weather', migrations)).toEqual(['001-a', '002-b', '010-c'])
      expect(await store.migrate('weather', migrations)).toEqual([])
      expect(await store.migrate('weather', { ...migrations, '011-d': step('d') })).toEqual([
        '011-d',
      ])
      expect(order).toEqual(['a', 'b', 'c', 'd'])
      expect(await tables()).toEqual(['weather_migrations'])
    })

    test('a migration that takes long is told of every ten seconds', async () => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
      try {
        const warnings: string[] = []
        const warn = (_: unknown, line: string) => void warnings.push(line)
        await store.close()
        store = await database.open({ ...silent, warn } as Log)
        const [begun, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
        const slow = async () => (begun.resolve(), await ended.promise)
        const migrating = store.migrate('weather', { '001-slow': slow })
        await begun.promise
        vi.advanceTimersByTime(20_000)
        ended.resolve()
        await migrating
        vi.advanceTimersByTime(20_000)
        expect(warnings).toHaveLength(2)
        expect(warnings[0]).toMatch(
          /^Migration "001-slow" of weather has run for \d+ s, and the server answers once it has ended$/,
        )
      } finally {
        vi.useRealTimers()
      }
    })

    test('each owner has its own list, so two of them may use the same names', async () => {
      const ran = await Promise.all(
        ['weather', 'query-gateway', 'x1'].map((owner) =>
          store.migrate(owner, { '001': create(`${owner.replace('-', '_')}_things`) }),
        ),
      )
      expect(ran).toEqual([['001'], ['001'], ['001']])
      expect(await tables()).toContain('query_gateway_migrations')
    })

    test('owners whose names look alike share nothing', async () => {
      const long = 'a'.repeat(60)
      const owners = ['a-b', 'ab', 'a-b-migrations', `${long}-one`, `${long}-two`]
      for (const owner of owners) {
        const ran = await store.migrate(owner, { '001': async () => {} })
        expect(ran).toEqual(['001'])
      }
      const names = await tables()
      expect(new Set(names).size).toBe(owners.length)
      expect(names.filter((name) => name.length > 63)).toEqual([])
    })

    test.each(['', 'A', 'a_b', 'a--b', '-a', 'a;drop', '1a', 'a"b'])(
      'an owner cannot be called "%s"',
      async (owner) => {
        await expect(store.migrate(owner, {})).rejects.toMatchObject({ code: 'MIGRATION_FAILED' })
      },
    )

    test('a migration that fails leaves nothing, names itself, and can be corrected', async () => {
      const broken: Migration = async (db) => {
        await db.schema.createTable('half').addColumn('id', 'integer').execute()
        await db.insertInto('half').values({ id: 1 }).execute()
        await db.insertInto('missing').values({ id: 1 }).execute()
      }
      const attempt = store.migrate('weather', { '001-a': create('whole'), '002-b': broken })
      await expect(attempt).rejects.toMatchObject({
        code: 'MIGRATION_FAILED',
        message: expect.stringMatching(/^Migration "002-b" of weather failed: .*missing/),
        hint: expect.any(String),
        cause: expect.any(Error),
      })
      expect(await tables()).toEqual(['weather_migrations', 'whole'])
      const corrected = { '001-a': create('whole'), '002-b': create('half') }
      expect(await store.migrate('weather', corrected)).toEqual(['002-b'])
    })

    test('a migration that hides its failure is not taken for one that ran', async () => {
      const hiding: Migration = async (db) => {
        await db.schema.createTable('half').addColumn('id', 'integer').execute()
        await db
          .insertInto('missing')
          .values({ id: 1 })
          .execute()
          .catch(() => {})
      }
      await expect(store.migrate('weather', { '001-a': hiding })).rejects.toMatchObject({
        code: 'MIGRATION_FAILED',
        message: expect.stringContaining('Migration "001-a" of weather failed: '),
      })
      expect(await tables()).not.toContain('half')
    })

    test('a failure that is no Error is told as it is', async () => {
      const odd: Migration = () => Promise.reject('no reason')
      await expect(store.migrate('weather', { '001-a': odd })).rejects.toThrow(
        'Migration "001-a" of weather failed: no reason',
      )
    })

    test('a database that has run what stands in no list any more is refused', async () => {
      await store.migrate('weather', { '001-a': create('a'), '002-b': create('b') })
      const renamed = { '001-a': create('a'), '003-c': create('c') }
      await expect(store.migrate('weather', renamed)).rejects.toMatchObject({
        code: 'MIGRATION_FAILED',
        message: 'This database has run migration "002-b" of weather, which weather no longer has.',
        hint: expect.stringContaining('newer version'),
      })
    })

    test('an addition of a newer version lets this version go on beside it, with a warning that names it', async () => {
      const add: Migration = async () => undefined
      await store.migrate('weather', { '001-a': add, '002-b': add })
      const lines: string[] = []
      const beside = await database.open({
        ...silent,
        warn: (fields, message) => void lines.push(`${JSON.stringify(fields)} ${message}`),
      })
      expect(await beside.migrate('weather', { '001-a': add })).toEqual([])
      expect(lines.join('\n')).toContain('"migrations":["002-b"]')
      expect(lines.join('\n')).toContain('A newer version of weather was here')
      // Back at the newer version, nothing runs again.
      expect(await beside.migrate('weather', { '001-a': add, '002-b': add })).toEqual([])
      await beside.close()
    })

    test('a migration that breaks stops the version before, with both names', async () => {
      const up: Migration = async () => undefined
      await store.migrate('weather', { '001-a': up, '002-b': { up, breaks: true } })
      await expect(store.migrate('weather', { '001-a': up })).rejects.toMatchObject({
        code: 'MIGRATION_FAILED',
        message: expect.stringMatching(/"002-b" of weather, which breaks .*"001-a"/),
      })
    })

    test('a table of migrations of a runtime that knew no additions learns of them', async () => {
      const up: Migration = async () => undefined
      for (const table of ['weather_migrations', 'empty_migrations'])
        await sql`create table ${sql.table(table)} (name text primary key, ran_at text not null)`.execute(
          store.db,
        )
      await sql`insert into weather_migrations (name, ran_at) values ('001-a', '2026')`.execute(
        store.db,
      )
      expect(await store.migrate('weather', { '001-a': up, '002-b': up })).toEqual(['002-b'])
      expect(await store.migrate('weather', { '001-a': up })).toEqual([])
      expect(await store.migrate('empty', { '001-a': up })).toEqual(['001-a'])
      // Nobody knows whether what such a runtime ran only adds.
      await expect(store.migrate('weather', { '002-b': up })).rejects.toMatchObject({
        message: expect.stringContaining('no longer has'),
      })
    })

    test('a migration that would come too late is refused, and nothing runs', async () => {
      await store.migrate('weather', { '001-a': create('a'), '003-c': create('c') })
      const late = { '001-a': create('a'), '002-b': create('b'), '003-c': create('c') }
      await expect(store.migrate('weather', late)).rejects.toMatchObject({
        code: 'MIGRATION_FAILED',
        message:
          'Migration "002-b" of weather comes before "003-c", which this database has already run.',
      })
      expect(await tables()).not.toContain('b')
    })

    test('one owner that fails does not keep the next from its migrations', async () => {
      const [failed, ran] = await Promise.allSettled([
        store.migrate('weather', { '001': () => Promise.reject(new Error('no')) }),
        store.migrate('registry', { '001': create('entities') }),
      ])
      expect(failed.status).toBe('rejected')
      expect(ran).toEqual({ status: 'fulfilled', value: ['001'] })
    })

    test('stores that open one database together each migrate it, and every step runs once', async () => {
      const stores = await Promise.all([database.open(), database.open(), database.open()])
      const ran = await Promise.all(
        stores.map((each) => each.migrate('weather', slowMigrations('weather'))),
      )
      expect(ran.flat().sort()).toEqual(['001-table', '002-column', '003-row'])
      expect((await sql`select * from weather_things`.execute(store.db)).rows).toEqual([
        { id: 1, name: 'weather' },
      ])
      await Promise.all(stores.map((each) => each.close()))
    })
  })
}

const everyStep = ['registry', 'weather'].flatMap((owner) =>
  ['001-table', '002-column', '003-row'].map((name) => `${owner} ${name}`),
)

/** Real servers on one empty database, started at the same moment. */
async function bootTogether(count: number, where: string): Promise<void> {
  const servers = Array.from({ length: count }, () => startChild('migrating-server.ts', [where]))
  expect(await Promise.all(servers.map((server) => server.ended()))).toEqual(Array(count).fill(0))
  const ran = servers.flatMap((server) => server.lines.flatMap((line) => JSON.parse(line)))
  expect(ran.sort()).toEqual(everyStep)
}

const folders: string[] = []
async function emptyFolder() {
  const path = await mkdtemp(join(tmpdir(), 'migrations-'))
  folders.push(path)
  return path
}
afterAll(async () => {
  killChildren()
  for (const path of folders) await rm(path, { recursive: true, force: true })
})

behavesAlike('on SQLite', async () => {
  const path = await emptyFolder()
  const dataDir = await openDataDir(path)
  return { open: (log = silent) => openStore({ dataDir, log }), drop: async () => {} }
})

test('servers that boot together on one SQLite file share the migrations', async () => {
  for (let round = 0; round < 3; round++) await bootTogether(3, await emptyFolder())
}, 120_000)

await describeWith('postgres', 'on PostgreSQL', (server) => {
  behavesAlike('alike', async () => {
    const own = await freshDatabase(server)
    return { open: (log = silent) => openStore({ databaseUrl: own.url, log }), drop: own.drop }
  })

  describe('a PostgreSQL database', () => {
    let own: Awaited<ReturnType<typeof freshDatabase>>
    beforeAll(async () => void (own = await freshDatabase(server)))
    afterAll(() => own.drop())

    test('lets a migration take longer than a query may', async () => {
      const store = await openStore({
        databaseUrl: `${own.url}?options=-c%20statement_timeout=0`,
        log: silent,
      })
      const settings: unknown[] = []
      await store.migrate('weather', {
        '001': async (db) => {
          for (const name of ['statement_timeout', 'idle_in_transaction_session_timeout'])
            settings.push((await sql`select current_setting(${name}) as value`.execute(db)).rows[0])
        },
      })
      expect(settings).toEqual([{ value: '0' }, { value: '0' }])
      await store.close()
    })

    test('says that it waits while another server migrates', async () => {
      const said: unknown[] = []
      const log = { ...silent, info: (...line: unknown[]) => void said.push(line[1]) }
      const [one, other] = [
        await openStore({ databaseUrl: own.url, log: silent }),
        await openStore({ databaseUrl: own.url, log }),
      ]
      const finish = Promise.withResolvers<void>()
      const begun = Promise.withResolvers<void>()
      const slow = one.migrate('registry', {
        '001': async () => {
          begun.resolve()
          await finish.promise
        },
      })
      await begun.promise
      const waiting = other.migrate('sampling', { '001': async () => {} })
      await expect.poll(() => said).toEqual(['Waiting for another server to finish its migrations'])
      finish.resolve()
      expect(await slow).toEqual(['001'])
      expect(await waiting).toEqual(['001'])
      await one.close()
      await other.close()
    })
  })

  test('servers that boot together on one empty database share the migrations', async () => {
    for (let round = 0; round < 4; round++) {
      const own = await freshDatabase(server)
      await bootTogether(4, own.url)
      await own.drop()
    }
  }, 120_000)
})
