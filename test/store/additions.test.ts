import { expect, test } from 'vitest'
import { kernelMigrations } from '../../core/runtime/kernel-tables.ts'
import { bundledPlugins } from '../../plugins/index.ts'
import type { Migrations } from '../../core/plugin.ts'

/** The versions whose major number says that an older server cannot run beside them; none so far. */
const breaking: readonly string[] = []

test('no migration of the kernel or of a bundled plugin breaks with the version before', async () => {
  const owners: [string, Migrations | undefined][] = [
    ...Object.entries(kernelMigrations),
    ...bundledPlugins.map(({ name, definition }): [string, Migrations | undefined] => [
      name,
      definition.migrations,
    ]),
  ]
  expect(owners.length).toBeGreaterThan(8)
  const found = owners.flatMap(([owner, migrations = {}]) =>
    Object.entries(migrations).flatMap(([name, migration]) =>
      typeof migration === 'function' ? [] : [`${owner} ${name}`],
    ),
  )
  expect(found).toEqual(breaking)
})
