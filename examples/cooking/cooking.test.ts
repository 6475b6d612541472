import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import registry from '../../plugins/registry/index.ts'
import { startServer } from '../../test/support/process.ts'
import { analyst } from './analyst.ts'
import { check } from '../../test/support/cooking.ts'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { callTo, seed } from './seed.ts'

const keys = 'amina:key-of-amina,ben:key-of-ben'

await onEachDatabase('the cooking example', ({ databaseUrl }) => {
  it('fills a server with twins, and claims become credits without a hand; twice is once', async () => {
    const env = { API_KEY: keys, ...(databaseUrl && { DATABASE_URL: databaseUrl }) }
    await using app = await testApp({ plugins: [registry], model: analyst, env })
    const call = callTo(app.url, 'key-of-amina')
    const second = callTo(app.url, 'key-of-ben')
    const said: string[] = []
    await seed(call, second, (line) => said.push(line))
    const first = await check(call, app.url)
    expect(said.join('\n')).toContain('31 days show 1 different times of cooking.')
    expect(said.join('\n')).toContain('g of ethanol a minute; a stove burns between 3 and 12.')
    await seed(call, second, () => {})
    expect(await check(call, app.url)).toEqual(first)
  }, 60_000)
})

it('runs as a program: its own server where none answers, which the next run finds', async () => {
  const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-cooking-'))
  const first = startServer('examples/cooking/main.ts', { DATA_DIR, HOST: '127.0.0.1' })
  try {
    const url = await first.url
    await expect.poll(() => first.output(), { timeout: 20_000 }).toContain('There it is.')
    expect(first.output()).toContain('this process is one')
    const { port } = new URL(url)
    const second = startServer('examples/cooking/main.ts', { DATA_DIR, PORT: port })
    expect(await second.exited).toBe(0)
    expect(second.output()).toContain('it waits for a second person')
    expect(second.output()).toContain('There it is.')
    expect(second.output()).not.toContain('this process is one')
    const wrong = startServer('examples/cooking/main.ts', { DATA_DIR, PORT: port, API_KEY: 'no' })
    expect(await wrong.exited).toBe(1)
    expect(wrong.output()).toMatch('401')
  } finally {
    expect(await first.end()).toBe(0)
    rmSync(DATA_DIR, { recursive: true, force: true })
  }
}, 60_000)
