import { copyFileSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { request, Agent } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import gateway from '../index.ts'
import { descriptorFile, startLedger } from '../fixtures/ledger.ts'
import { startProcess } from '../../../test/support/start-process.ts'

/** The descriptors of an older ledger, without tokens. */
function older() {
  const { file: files } = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
  const service = files[0]!.service.findIndex(({ name }) => name === 'TokenQuery')
  files[0]!.service.splice(service, 1)
  return files
}

it.each(['v1', 'v1alpha'] as const)(
  'learns everything by reflection %s, once the upstream is up',
  async (version) => {
    const first = await startLedger()
    await first.close()
    await using app = await testApp({
      plugins: [gateway],
      env: {
        GATEWAY_RATE_PER_MINUTE: '1000000',
        GATEWAY_UPSTREAM: first.address,
        GATEWAY_REFLECTION: 'true',
      },
    })
    expect((await app.get('/ledger/token/params')).status).toBe(503)
    expect(app.report.plugins[0]).toMatchObject({ state: 'pending' })
    const ledger = await startLedger({
      reflection: version,
      port: Number(first.address.split(':')[1]),
    })
    await expect
      .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 15_000 })
      .toBe(200)
    expect((await app.get('/ledger/entity/did:x:entity:1')).body.entity.status).toBe(
      'STATUS_ACTIVE',
    )
    await ledger.close()
  },
)

it('asks an upstream that comes back for its descriptors again: it may have been upgraded', async () => {
  const old = await startLedger({ reflection: 'v1', reflected: older() })
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_RATE_PER_MINUTE: '1000000',
      GATEWAY_UPSTREAM: old.address,
      GATEWAY_REFLECTION: 'true',
    },
  })
  const status = async (path: string) => (await app.get(path)).status
  await expect.poll(() => status('/ledger/entity/params')).toBe(200)
  expect(await status('/ledger/token/params')).toBe(404)
  await old.close()
  expect(await status('/ledger/entity/params')).toBe(503)
  const ledger = await startLedger({
    reflection: 'v1',
    port: Number(old.address.split(':')[1]),
  })
  // Only requests of clients let the gateway notice the new ledger.
  await expect.poll(() => status('/ledger/entity/params')).toBe(200)
  await expect.poll(() => status('/ledger/token/params')).toBe(200)
  await ledger.close()
})

it(
  'reads its descriptors again on SIGHUP, while requests and streams go on',
  { timeout: 60_000 },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
    const reflected = older()
    const gate = Promise.withResolvers<void>()
    async function* watch() {
      yield { claim_id: 'first' }
      await gate.promise
      yield { claim_id: 'last' }
    }
    const ledger = await startLedger({
      reflection: 'v1',
      reflected,
      streams: { 'ClaimsQuery.Watch': watch },
    })
    // The server runs in a process of its own, because the test sends a signal to the process.
    const server = startProcess('server.ts', {
      PORT: '0',
      DATA_DIR: folder,
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_REFLECTION: 'true',
    })
    try {
      const [url] = await server.said(/http:\/\/127\.0\.0\.1:\d+/)
      const status = async (path: string) => (await fetch(url + path)).status
      await expect.poll(() => status('/ledger/entity/params'), { timeout: 15_000 }).toBe(200)
      expect(await status('/ledger/token/params')).toBe(404)
      const stream = (await fetch(`${url}/ledger/claims/watch`)).text()
      const { file: all } = fromBinary(FileDescriptorSetSchema, readFileSync(descriptorFile))
      reflected.splice(0, reflected.length, ...all)
      // The upstream has stayed connected, so only the signal tells the gateway to read the descriptors again.
      server.process.kill('SIGHUP')
      await expect.poll(() => status('/ledger/token/params'), { timeout: 15_000 }).toBe(200)
      gate.resolve()
      expect((await stream).trim().split('\n')).toHaveLength(2)
    } finally {
      await server.stop()
      await ledger.close()
      rmSync(folder, { recursive: true, force: true })
    }
  },
)

it('waits for a descriptor file that is not there yet', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  const file = join(folder, 'descriptors.binpb')
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_RATE_PER_MINUTE: '1000000',
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_DESCRIPTORS: file,
    },
  })
  expect(app.report.plugins[0]).toMatchObject({ state: 'pending' })
  expect((await app.get('/ledger/token/params')).status).toBe(503)
  expect((await app.get('/health')).body.plugins['query-gateway']).toBe('degraded')
  copyFileSync(descriptorFile, file)
  await expect
    .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 15_000 })
    .toBe(200)
  await ledger.close()
  rmSync(folder, { recursive: true })
})

it('takes new descriptors while requests run, keeps the old ones when they are broken, and drops nothing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-'))
  const file = join(folder, 'descriptors.binpb')
  copyFileSync(descriptorFile, file)
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_RATE_PER_MINUTE: '1000000',
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_DESCRIPTORS: file,
    },
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
  replace(toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file: older() })))
  await expect
    .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 15_000 })
    .toBe(404)
  replace(Buffer.from('no descriptors'))
  await expect.poll(() => app.log.join(), { timeout: 15_000 }).toContain('cannot be used')
  replace(readFileSync(descriptorFile))
  await expect
    .poll(async () => (await app.get('/ledger/token/params')).status, { timeout: 15_000 })
    .toBe(200)
  going = false
  await asking
  expect(seen.length).toBeGreaterThan(10)
  expect(new Set(seen)).toEqual(new Set([200]))
  await ledger.close()
  rmSync(folder, { recursive: true })
})

it('makes few upstream calls of ten thousand equal questions', { timeout: 90_000 }, async () => {
  const ledger = await startLedger()
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_RATE_PER_MINUTE: '1000000',
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_DESCRIPTORS: descriptorFile,
    },
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
  expect(ledger.calls['TokenQuery.Params']).toBeLessThan(1000)
  await ledger.close()
})

it(
  'makes one upstream call of ten thousand that wait for it at once',
  { timeout: 90_000 },
  async () => {
    const gate = Promise.withResolvers<{}>()
    const ledger = await startLedger({ handlers: { 'TokenQuery.Params': () => gate.promise } })
    await using app = await testApp({
      plugins: [gateway],
      env: {
        GATEWAY_RATE_PER_MINUTE: '1000000',
        GATEWAY_UPSTREAM: ledger.address,
        GATEWAY_DESCRIPTORS: descriptorFile,
      },
    })
    await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
    // HTTP/1.1 lets a client send requests before it has answers, so each connection sends a hundred at once.
    const [connections, each] = [100, 100]
    const text = 'GET /ledger/token/params HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(each)
    const port = Number(new URL(app.url).port)
    const answers = Array.from({ length: connections }, async () => {
      const socket = connect(port, '127.0.0.1').setEncoding('utf8')
      socket.write(text)
      let received = ''
      for await (const chunk of socket) {
        received += chunk
        if (received.split('HTTP/1.1 200 OK').length > each && received.endsWith('}')) break
      }
      return received.split('"max_supply"').length - 1
    })
    // After the answers to these later requests, all earlier requests have arrived.
    for (let round = 0; round < 20; round++) await app.get('/ledger/entity/params')
    gate.resolve({})
    const counts = await Promise.all(answers)
    expect(counts).toEqual(Array(connections).fill(each))
    expect(ledger.calls['TokenQuery.Params']).toBeLessThan(5)
    await ledger.close()
  },
)

it(
  'holds no more memory after many requests than after some, whatever became of them',
  { timeout: 120_000 },
  async () => {
    const wait = () => new Promise<never>(() => undefined)
    const ledger = await startLedger({ handlers: { 'EntityQuery.Params': wait } })
    await using app = await testApp({
      plugins: [gateway],
      env: {
        GATEWAY_RATE_PER_MINUTE: '1000000',
        GATEWAY_UPSTREAM: ledger.address,
        GATEWAY_DESCRIPTORS: descriptorFile,
      },
    })
    await expect.poll(() => app.report.plugins[0]?.state).toBe('available')
    const agent = new Agent({ keepAlive: true, maxSockets: 32 })
    const ask = (path: string, leavesAfterMs?: number) =>
      new Promise<void>((resolve) => {
        const asked = request(app.url + path, { agent }, (response) => {
          response.resume().on('end', resolve)
        })
        asked.on('error', () => resolve()).end()
        if (leavesAfterMs !== undefined) setTimeout(() => asked.destroy(), leavesAfterMs)
      })
    const some = async (from: number) => {
      for (let nth = from; nth < from + 2000; nth += 100)
        await Promise.all(
          Array.from({ length: 100 }, (_, index) =>
            index % 10 === 0
              ? ask(`/ledger/entity/params?n=${nth + index}`, 5) // the client leaves before its answer
              : index % 10 === 1
                ? ask(`/ledger/entity/nobody-${nth + index}`) // a different path for each 404
                : index % 10 === 2
                  ? ask('/ledger/claims/watch')
                  : ask(`/ledger/token/params?n=${nth + index}`),
          ),
        )
    }
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const heap = () => {
      collect()
      return process.memoryUsage().heapUsed
    }
    await some(0)
    const before = heap()
    for (let round = 1; round <= 3; round++) await some(round * 2000)
    agent.destroy()
    // If each of the 6000 requests left a kilobyte behind, the heap would have grown by six megabytes.
    expect(heap() - before).toBeLessThan(4 * 1024 * 1024)
    await ledger.close()
  },
)

it('goes on for those who stay when one of those who share a call leaves', async () => {
  const gate = Promise.withResolvers<{}>()
  const ledger = await startLedger({ handlers: { 'TokenQuery.Params': () => gate.promise } })
  await using app = await testApp({
    plugins: [gateway],
    env: {
      GATEWAY_RATE_PER_MINUTE: '1000000',
      GATEWAY_UPSTREAM: ledger.address,
      GATEWAY_DESCRIPTORS: descriptorFile,
    },
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
