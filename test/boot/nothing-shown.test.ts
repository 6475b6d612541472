import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { callerOf, sayTo } from '../support/caller.ts'
import { startServer } from '../support/process.ts'

it('there is no page, no showcase and no /show in production', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'production-'))
  const server = startServer('start.js', {
    DATA_DIR: folder,
    ...{ NODE_ENV: 'production', ORACLE_MNEMONIC: 'words of an oracle of this test' },
    ...{ OPERATOR_TOKEN: 'operator-of-this-test', MODEL: 'demo' },
  })
  onTestFinished(async () => {
    await server.end()
    await rm(folder, { recursive: true, force: true })
  })
  const url = await server.url
  for (const path of ['/playground', '/playground/', '/showcase'])
    expect([path, (await fetch(url + path)).status]).toEqual([path, 404])
  const caller = await callerOf(url)
  const headers = async () => ({ ...(await caller.headers()) })
  const listed = await fetch(`${url}/capabilities`, { headers: await headers() })
  const { plugins } = (await listed.json()) as { plugins: { name: string; state: string }[] }
  for (const name of ['playground', 'showcase'])
    expect(plugins.find((one) => one.name === name)).toMatchObject({ state: 'disabled' })
  // The words are for the model.
  const { text } = await sayTo(url, headers, '/show markdown')
  expect(text).toContain('demonstration model')
}, 120_000)
