import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type EnvSource, isForAuthors } from '../manifest/env.ts'
import { kernelEnv } from '../manifest/kernel-env.ts'
import type { AnyPlugin, Log, Migrations } from '../plugin.ts'
import { isActive } from './base/plugin-record.ts'
import { withGenerated } from './boot/environment.ts'
import { planBoot } from './boot/plan.ts'
import { stopOn } from './boot/stop-on.ts'
import { kernelRouteKeys } from './kernel-routes.ts'
import { kernelMigrations } from './kernel-tables.ts'
import { openDataDir } from './store/data-dir.ts'
import { pendingMigrations } from './store/migrate.ts'
import { openStore } from './store/store.ts'
import { readVariableFiles } from './variables/from-files.ts'

/** A migration that ran, or would run. */
export interface NamedMigration {
  readonly owner: string
  readonly migration: string
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

/**
 * Runs the migrations of the kernel and of the active plugins in the database that the environment names; with `check`
 * none runs. Resolves to those that ran or would run. An embedded database that a server has is refused, but for a check
 * of what is there.
 */
export async function migrateWithoutServer(
  bare: EnvSource,
  plugins: readonly AnyPlugin[],
  { check = false }: { readonly check?: boolean } = {},
): Promise<NamedMigration[]> {
  const shapes = [kernelEnv, ...plugins.map(({ definition }) => definition.env ?? {})]
  const { source: given, faults } = await readVariableFiles(bare, shapes)
  if (faults[0]) throw faults[0]
  const forAuthors = isForAuthors(given)
  const isFile = !given.DATABASE_URL
  const folder = given.DATA_DIR || '.data'
  // A check makes nothing: where no database is yet, it looks at an empty one in memory.
  const isThere = check ? existsSync(join(folder, 'oracle.sqlite')) : folder !== ':memory:'
  const dataDir = isThere && (forAuthors || isFile) ? await openDataDir(folder) : undefined
  const source = forAuthors ? await withGenerated(given, shapes, dataDir) : given
  const plan = planBoot({ plugins, features: {}, source, kernelRoutes: kernelRouteKeys })
  stopOn(plan.faults, silent)
  const owners: [string, Migrations][] = Object.entries(kernelMigrations)
  for (const { name, definition } of plan.records.filter(isActive))
    if (definition.migrations) owners.push([name, definition.migrations])
  const lock = isFile && !check ? await dataDir?.lock({ pid: process.pid }) : undefined
  try {
    const { DATABASE_URL: databaseUrl } = plan.config
    const store = await openStore({ databaseUrl, dataDir, log: silent })
    try {
      const named: NamedMigration[] = []
      for (const [owner, migrations] of owners) {
        const names = check
          ? await pendingMigrations(store.db, owner, migrations)
          : await store.migrate(owner, migrations)
        for (const migration of names) named.push({ owner, migration })
      }
      return named
    } finally {
      await store.close()
    }
  } finally {
    await lock?.release()
  }
}
