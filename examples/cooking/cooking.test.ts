import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import registry from '../../plugins/registry/index.ts'
import { startServer } from '../../test/support/process.ts'
import { verify } from '../../test/support/verify-credential.ts'
import { callTo, seed } from './seed.ts'

const keys = 'amina:key-of-amina,ben:key-of-ben'

it('fills a server with organisation, project, stoves, claims, oracle, credentials; twice is once', async () => {
  await using app = await testApp({ plugins: [registry], env: { API_KEY: keys } })
  const call = callTo(app.url, 'key-of-amina')
  const verifying = callTo(app.url, 'key-of-ben')
  await seed(call, verifying, () => {})
  const all = async () => ({
    entities: [
      'organisation',
      'project',
      'oracle',
      'stove-1',
      'stove-2',
      'stove-3',
      'carbon-credit-1',
      'carbon-credit-2',
    ].map((name) => call('GET', `/v1/entities/did:ixo:cooking:${name}`)),
    claims: (await call('GET', '/v1/claims')).items,
    credentials: (await call('GET', '/v1/credentials')).items,
  })
  const { entities, claims, credentials } = await all()
  const [organisation, project, , stove, , , credit] = await Promise.all(entities)
  expect(organisation.relationships).toContainEqual({ role: 'implements', target: project.did })
  expect(project.relationships).toContainEqual({ role: 'distributes', target: stove.did })
  expect(claims.map(({ status }: { status: string }) => status)).toEqual([
    'rejected',
    'approved',
    'approved',
  ])
  expect(credentials).toHaveLength(2)
  expect(credit.verifiableCredential).toEqual([credentials[1]])
  for (const credential of credentials)
    expect(await verify(credential, app.url)).toMatchObject({ verified: true, revoked: false })

  await seed(call, verifying, () => {})
  expect((await all()).claims).toEqual(claims)
  expect((await all()).credentials).toEqual(credentials)
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
})
