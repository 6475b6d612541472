import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { startServer, type ServerProcess } from '../../test/support/process.ts'
import { check } from '../../test/support/cooking.ts'
import { callTo } from './seed.ts'

const keys = 'amina:key-of-amina,ben:key-of-ben'

await onEachDatabase('a server that is killed between a claim and its credit', (where) => {
  it('evaluates each claim once and mints each credit once', { timeout: 120_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-cooking-'))
    const env = {
      API_KEY: keys,
      DATA_DIR: folder,
      HOST: '127.0.0.1',
      RUN_LEASE_MS: '1000',
      ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
    }
    let server: ServerProcess | undefined
    try {
      // One life ends while verdicts are given, the other while credits are made.
      for (const sign of ['claims: ', 'stove-2:']) {
        server = startServer('examples/cooking/main.ts', env)
        await server.url
        await expect
          .poll(() => new RegExp(sign).test(server!.output()), { timeout: 40_000, interval: 5 })
          .toBe(true)
        await server.end('SIGKILL')
      }
      server = startServer('examples/cooking/main.ts', env)
      const url = await server.url
      await expect.poll(() => server!.output(), { timeout: 60_000 }).toContain('There it is.')
      await check(callTo(url, 'key-of-amina'))
    } finally {
      await server?.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
