import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { slowMigrations } from './slow-migrations.ts'
import { silent } from './silent-log.ts'

/** Runs the same migrations as its sibling processes, and prints those that it ran itself: `<postgres url or path>`. */
const [where = ''] = process.argv.slice(2)
const store = await openStore(
  where.startsWith('postgres')
    ? { databaseUrl: where, log: silent }
    : { dataDir: await openDataDir(where), log: silent },
)
for (const owner of ['weather', 'registry']) {
  const ran = await store.migrate(owner, slowMigrations(owner))
  console.log(JSON.stringify(ran.map((name) => `${owner} ${name}`)))
}
await store.close()
