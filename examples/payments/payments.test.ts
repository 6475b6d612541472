import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { callerOf } from '../../test/support/caller.ts'
import { faultsAt, sentence } from '../../test/support/nothing-kept.ts'
import { startServer } from '../../test/support/process.ts'

async function start(script: string, env: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'payments-ledger-'))
  const server = startServer(script, { DATA_DIR: folder, LOG_LEVEL: 'trace', ...env })
  onTestFinished(async () => {
    await server.end()
    const faults = await faultsAt({ dataDir: folder }, [server.output()])
    await rm(folder, { recursive: true, force: true })
    expect(faults).toEqual([])
  })
  const url = await server.url
  const { headers } = await callerOf(url, 'a customer of two servers')
  const ask = async (path: string, body?: object) => {
    const answer = await fetch(url + path, {
      method: body ? 'POST' : 'GET',
      headers: { ...(await headers()), ...(body && { 'content-type': 'application/json' }) },
      body: body && JSON.stringify(body),
    })
    const told: any = await answer.json() // any: what a route answers
    return { status: answer.status, body: told }
  }
  return { server, ask }
}

it('a server that is set up by what the ledger prints is paid on that ledger, over gRPC', async () => {
  const ledger = await start('examples/payments/ledger.ts', { LEDGER_PORT: '0' })
  const printed = ledger.server.output().matchAll(/\b(PAYMENTS_[A-Z_]+)=(\S+)/g)
  const variables = Object.fromEntries(
    [...printed].map(([, name = '', value = '']) => [name, value]),
  )
  expect(variables).toEqual({
    PAYMENTS_TURN_PRICE: '5000',
    PAYMENTS_FIRST_CREDIT: '10000',
    PAYMENTS_LEDGER: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
    PAYMENTS_LEDGER_TLS: 'off',
    PAYMENTS_ADDRESS: expect.stringMatching(/^dev1/),
  })
  const shop = await start('server.ts', variables)
  // The shop has no wallet of its users, and is paid at the address that was printed.
  expect((await shop.ask('/payments/development/account')).status).toBe(404)
  expect((await shop.ask('/payments/terms')).body.methods).toEqual([
    { name: 'transfer', address: variables.PAYMENTS_ADDRESS },
  ])

  const { sessionId } = (await shop.ask('/sessions', {})).body
  const say = (text: string) =>
    shop.ask(`/messages/${sessionId}`, { message: `${text}: ${sentence}`, stream: false })
  for (const message of ['One', 'Two']) {
    expect((await say(message)).status).toBe(200)
    await expect
      .poll(async () => (await shop.ask('/payments/account')).body.held, { timeout: 30_000 })
      .toBe('0')
  }
  const refused = await say('Three')
  expect(refused).toMatchObject({ status: 402, body: { amount: '10000', methods: ['transfer'] } })

  const { address } = (await ledger.ask('/payments/development/account')).body
  const prepared = await shop.ask('/payments/prepare', { address, claims: refused.body.claims })
  const { messages, memo, paymentId } = prepared.body
  const sent = await ledger.ask('/payments/development/transact', { messages, memo })
  expect(sent.body).toMatchObject({ code: 0 })
  const txHash = sent.body.transactionHash
  expect(await shop.ask('/payments/settle', { paymentId, txHash })).toMatchObject({
    status: 200,
    body: { status: 'settled', paid: refused.body.claims, balance: '0' },
  })
  expect((await say('Three')).status).toBe(200)
  const { balance } = (await ledger.ask('/payments/development/account')).body
  expect(balance).toBe(String(1_000_000_000 - 10_000))

  // The ledger goes away: turns within the credit go on, and what cannot be asked is said.
  await ledger.server.end()
  expect((await say('Four')).status).toBe(200)
  expect(await shop.ask('/payments/settle', { txHash: 'AB'.repeat(32) })).toMatchObject({
    status: 503,
    body: { code: 'LEDGER_UNREACHABLE' },
  })
}, 120_000)

it('says in two lines that something else listens at its port', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'payments-port-'))
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  const server = startServer('examples/payments/server.ts', {
    DATA_DIR: folder,
    PORT: String(port),
  })
  onTestFinished(async () => {
    taken.close()
    await server.end()
    await rm(folder, { recursive: true, force: true })
  })
  await expect(server.url).rejects.toThrow()
  await expect.poll(() => server.output()).toContain('Set PORT to a free port')
  expect(server.output()).not.toContain('EADDRINUSE')
}, 60_000)
