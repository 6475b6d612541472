import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { request, Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import gateway from '../../plugins/query-gateway/index.ts'
import { descriptorFile, startLedger } from './ledger.ts'

it.each(['v1', 'v1alpha'] as const)(
  'learns everything by reflection %s, once the upstream is up',
  async (version) => {
    const first = await startLedger()
    await first.close()
    await using app = await testApp({
      plugins: [gateway],
      env: { GATEWAY_UPSTREAM: first.address, GATEWAY_REFLECTION: 'true' },
    })
    expect((await app.get('/ledger/token/params')).status).toBe(503)
    expect(app.report.plugins[0]).toMatchObject({ state: 'pending' })
    const ledger = await startLedger({
      reflection: version,
      port: Number(first.address.split(':')[1]),
    })
    await expect
      .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 10_000 })
      .toBe(200)
    expect((await app.get('/ledger/entity/did:x:entity:1')).body.entity.status).toBe(
      'STATUS_ACTIVE',
    )
    await ledger.close()
  },
)

it('takes new descriptors while requests run, keeps the old ones when they are broken, and drops nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  const file = join(folder, 'descriptors.binpb')
  copyFileSync(descriptorFile, file)
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: { GATEWAY_UPSTREAM: ledger.address, GATEWAY_DESCRIPTORS: file },
  })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')

  const seen: number[] = []
  let going = true
  const asking = Promise.all(
    Array.from({ length: 4 }, async () => {
      while (going) seen.push((await app.get('/ledger/entity/did:x:entity:1')).status)
    }),
  )
  const replace = (bytes: Uint8Array) => {
    writeFileSync(`${file}.new`, bytes)
    renameSync(`${file}.new`, file)
  }
  const { file: files } = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
  const service = files[0]!.service.findIndex(({ name }) => name === 'TokenQuery')
  files[0]!.service.splice(service, 1)
  replace(toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file: files })))
  await expect
    .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 10_000 })
    .toBe(404)
  replace(Buffer.from('no descriptors'))
  await expect.poll(() => app.log.join(), { timeout: 10_000 }).toContain('cannot be used')
  replace(readFileSync(descriptorFile))
  await expect
    .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 10_000 })
    .toBe(200)
  going = false
  await asking
  expect(seen.length).toBeGreaterThan(10)
  expect(new Set(seen)).toEqual(new Set([200]))
  await ledger.close()
  rmSync(folder, { recursive: true })
})

it('makes few upstream calls of ten thousand equal questions', async () => {
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: { GATEWAY_UPSTREAM: ledger.address, GATEWAY_DESCRIPTORS: descriptorFile },
  })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
  const agent = new Agent({ keepAlive: true, maxSockets: 500 })
  const ask = () =>
    new Promise<number>((resolve, reject) =>
      request(`${app.url}/ledger/token/params`, { agent }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode ?? 0))
      })
        .on('error', reject)
        .end(),
    )
  const answers = await Promise.all(Array.from({ length: 10_000 }, ask))
  agent.destroy()
  expect(new Set(answers)).toEqual(new Set([200]))
  expect(ledger.calls['TokenQuery.Params']).toBeLessThan(2500)
  await ledger.close()
})

it('goes on for those who stay when one of those who share a call leaves', async () => {
  const gate = Promise.withResolvers<{}>()
  const ledger = await startLedger({ handlers: { 'TokenQuery.Params': () => gate.promise } })
  await using app = await testApp({
    plugins: [gateway],
    env: { GATEWAY_UPSTREAM: ledger.address, GATEWAY_DESCRIPTORS: descriptorFile },
  })
  await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
  const leaving = new AbortController()
  const url = `${app.url}/ledger/token/params`
  const left = fetch(url, { signal: leaving.signal })
  const stays = fetch(url)
  await expect.poll(() => ledger.calls['TokenQuery.Params']).toBe(1)
  leaving.abort()
  await expect(left).rejects.toThrow()
  gate.resolve({})
  expect((await stays).status).toBe(200)
  expect(ledger.calls['TokenQuery.Params']).toBe(1)
  await ledger.close()
})
