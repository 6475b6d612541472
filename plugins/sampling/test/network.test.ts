import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { testApp } from '#core/testing'
import { chains } from '../beacons/chains.ts'
import sampling from '../index.ts'
import { answerOf, roundOf } from '../fixtures/published-rounds.ts'
import { callsOf, idsOf, keys, small, timeOfRound, turnClock } from '../fixtures/world.ts'

const ids = idsOf(400)
const frame = { all: ids }
const quick = roundOf('quicknet', 1000)
const quicknet = chains.find(({ name }) => name === 'quicknet')?.hash ?? ''

/** A server on this machine that answers as a test says; resolves to its address and to the paths that were asked for. */
async function served(answer: (path: string, response: ServerResponse) => void) {
  const asked: string[] = []
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    asked.push(path)
    answer(path, response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}
const json = (response: ServerResponse, value: unknown) =>
  response.setHeader('content-type', 'application/json').end(JSON.stringify(value))

async function appWith(env: Record<string, string>) {
  const app = await testApp({ plugins: [sampling], fetch, env: { ...keys, ...env } })
  onTestFinished(() => app.close())
  return { app, ...callsOf(app) }
}

/** A design of the app with a frame that is committed to the round 1000 of quicknet; the clock then stands after the round. */
async function committed({ post, made }: Awaited<ReturnType<typeof appWith>>): Promise<string> {
  turnClock(timeOfRound(quick) - 60_000)
  const path = await made()
  const beacon = { source: 'drand:quicknet', round: 1000 }
  const { status } = await post(`${path}/selection/commit`, { frame, beacon })
  expect(status).toBe(200)
  vi.setSystemTime(timeOfRound(quick) + 1000)
  return path
}

it('of several relays the first valid answer wins: silent, broken, lying and foreign ones do not', async () => {
  const silent = await served(() => undefined)
  const broken = await served((_, response) => response.end('{"round":'))
  const failing = await served((_, response) => response.writeHead(500).end())
  const lying = await served((_, response) =>
    json(response, { ...answerOf(quick), signature: roundOf('quicknet', 657_413).signature }),
  )
  const foreign = await served((_, response) => json(response, answerOf(roundOf('default', 1000))))
  const endless = await served((_, response) => void response.end('['.repeat(2 ** 21)))
  const moved = await served((_, response) =>
    response.writeHead(302, { location: `${honest.url}/elsewhere` }).end(),
  )
  const honest = await served((_, response) => json(response, answerOf(quick)))
  const others = [silent, broken, failing, lying, foreign, endless, moved]
  const world = await appWith({ DRAND_URL: [...others, honest].map(({ url }) => url).join(', ') })
  const path = await committed(world)
  expect(await world.post(`${path}/selection`, {})).toMatchObject({
    status: 200,
    body: { beaconHex: quick.randomness, verifiable: true },
  })
  expect(honest.asked).toEqual([`/${quicknet}/public/1000`])
})

it('when no relay has a valid answer, nothing is drawn, and the round may still be pasted', async () => {
  const lying = await served((_, response) =>
    json(response, { ...answerOf(quick), randomness: '0'.repeat(64) }),
  )
  const world = await appWith({ DRAND_URL: `${lying.url}/,http://127.0.0.1:1` })
  const path = await committed(world)
  expect(await world.post(`${path}/selection`, {})).toMatchObject({
    status: 502,
    body: { code: 'UPSTREAM_FAILED', hint: expect.stringContaining('paste') },
  })
  expect((await world.get(`${path}/selection`)).strata).toBeUndefined()
  expect(await world.post(`${path}/selection`, { published: answerOf(quick) })).toMatchObject({
    status: 200,
  })
})

it('an address of a relay that is no web address stops the start, by its name', async () => {
  for (const DRAND_URL of ['api.drand.sh', 'file:///etc/passwd', 'https://user:word@api.drand.sh'])
    await expect(testApp({ plugins: [sampling], env: { ...keys, DRAND_URL } })).rejects.toThrow(
      'DRAND_URL',
    )
})

it('a block hash of the ledger seeds a draw, at a height that was fixed before', async () => {
  let height = 100
  const hashAt = (at: number) => Buffer.alloc(32, at % 256)
  const node = await served((path, response) => {
    const named = path.split('/').at(-1) ?? ''
    const at = named === 'latest' ? height : Number(named)
    if (at > height) return void response.writeHead(400).end('{}')
    const header = { chain_id: 'impacthub-3', height: String(at), time: '2026-01-01T00:00:00Z' }
    json(response, { block_id: { hash: hashAt(at).toString('base64') }, block: { header } })
  })
  const { post, made } = await appWith({ LEDGER_URL: `http://127.0.0.1:1,${node.url}` })
  const path = await made()
  const commit = (source: string, round: number) =>
    post(`${path}/selection/commit`, { frame, beacon: { source, round } })
  const refused = (message: string) => ({
    status: 400,
    body: { message: expect.stringContaining(message) },
  })
  expect(await commit('ledger:other-1', 200)).toMatchObject(refused('is impacthub-3'))
  expect(await commit('ledger:impacthub-3', 100)).toMatchObject(refused('is known'))
  expect(await commit('ledger:impacthub-3', 120)).toMatchObject({
    status: 200,
    body: { source: 'ledger:impacthub-3', round: 120, verifiable: true },
  })
  expect(await post(`${path}/selection`, {})).toMatchObject({
    status: 409,
    body: { message: expect.stringContaining('120 is still to come') },
  })
  height = 121
  expect(await post(`${path}/selection`, { beaconHex: '00'.repeat(32) })).toMatchObject(
    refused('the value of round 120 is'),
  )
  expect(await post(`${path}/selection`, {})).toMatchObject({
    status: 200,
    body: {
      beaconHex: hashAt(120).toString('hex'),
      evidence: { chainId: 'impacthub-3', height: 120 },
      verifiable: true,
    },
  })
})

it('without a ledger none is named', async () => {
  const { post, made } = await appWith({})
  const beacon = { source: 'ledger:impacthub-3', round: 5 }
  expect(await post(`${await made()}/selection/commit`, { frame, beacon })).toMatchObject({
    status: 400,
    body: { hint: expect.stringContaining('LEDGER_URL') },
  })
})

it('the audit of a selection of 2023 runs with every socket refused', async () => {
  const world = await appWith({})
  const path = await committed(world)
  await world.post(`${path}/selection`, { published: answerOf(quick) })
  const selection = await world.get(`${path}/selection`)
  expect(selection.selectedAt).toMatch(/^2023-08-23T/)
  vi.useRealTimers()

  const folder = mkdtempSync(join(tmpdir(), 'oracle-audit-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const refusing = join(folder, 'refuse-sockets.mjs')
  writeFileSync(
    refusing,
    `import dgram from 'node:dgram'
import dns from 'node:dns'
import net from 'node:net'
const refuse = (what) => () => { process.stderr.write('a socket was asked for: ' + what); process.exit(9) }
net.Socket.prototype.connect = refuse('connect')
net.Server.prototype.listen = refuse('listen')
dgram.createSocket = refuse('dgram')
dns.lookup = refuse('lookup')
globalThis.fetch = refuse('fetch')
`,
  )
  const cli = join(import.meta.dirname, '../cli.ts')
  const run = (selection: object, script = cli) => {
    const file = join(folder, 'selection.json')
    writeFileSync(file, JSON.stringify(selection))
    writeFileSync(join(folder, 'ids.txt'), ids.join('\n'))
    const args = ['--import', refusing, script, file, join(folder, 'ids.txt')]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    return { status, stdout, stderr }
  }
  // The refusal works: a script that connects ends with 9.
  const connecting = join(folder, 'connect.mjs')
  writeFileSync(connecting, "import net from 'node:net'\nnet.connect(80, '127.0.0.1')\n")
  expect(run({}, connecting).status).toBe(9)

  const agreed = run(selection)
  expect(agreed).toMatchObject({ status: 0 })
  expect(agreed.stdout).toContain('The selection agrees: ')
  expect(agreed.stdout).toContain('verifiable: true')
  expect(agreed.stdout).toContain('  1. 2023-08-23T')
  const forged = { ...selection.evidence, signature: roundOf('quicknet', 657_413).signature }
  expect(run({ ...selection, evidence: forged })).toMatchObject({
    status: 1,
    stdout: expect.stringContaining('did not make it'),
  })
  const { evidence: _, ...unproven } = selection
  expect(run(unproven)).toMatchObject({
    status: 3,
    stdout: expect.stringContaining('verifiable: false'),
  })
})
