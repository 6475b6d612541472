import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { RuntimeError } from '../../core/errors.ts'
import { createWallet } from '../../core/testing/wallet.ts'
import { browserWallet, fetchAs } from '../../examples/wallet/browser.ts'
import { oracle, testAuth } from '../support/auth.ts'

/** A server that says who called, as the runtime would find out. */
const { auth } = testAuth()
const server = createServer(async (request, response) => {
  const answer = (status: number, body: unknown) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (request.url === '/.well-known/oracle.json') return answer(200, { did: oracle.did })
  try {
    const { headers } = request
    const user = await auth.authenticate({
      authorization: headers.authorization,
      authType: headers['x-auth-type']?.toString(),
      delegation: headers['x-ucan-delegation']?.toString(),
      method: request.method!,
      path: request.url!,
    })
    answer(200, { did: user.did, registry: user.can('registry/write') })
  } catch (error) {
    answer(error instanceof RuntimeError ? error.status : 500, {})
  }
})
let url: string
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

describe('the wallet of the examples', () => {
  test('calls from Node', async () => {
    const run = promisify(execFile)
    const { stdout } = await run(process.execPath, ['examples/wallet/node.ts', url])
    const [did, status, body] = stdout.trim().split(' ')
    expect(status).toBe('200')
    expect(JSON.parse(body!)).toEqual({ did, registry: true })
  })

  test('calls from a browser, as the same user at every visit', async () => {
    const items = new Map<string, string>()
    const store = {
      getItem: (key: string) => items.get(key) ?? null,
      setItem: (key: string, value: string) => void items.set(key, value),
    }
    const { did } = await browserWallet(store)
    for (let visit = 0; visit < 2; visit++) {
      const response = await fetchAs(store, oracle.did, `${url}/user-preferences`)
      expect(response.status).toBe(200)
      expect(await response.json()).toEqual({ did, registry: true })
    }
  })
})

describe('the wallet for tests and development', () => {
  test('is the same user for the same words', async () => {
    const words = 'the development user'
    const [one, two, other] = await Promise.all([
      createWallet(words),
      createWallet(` ${words} `),
      createWallet(),
    ])
    expect(one.did).toBe(two.did)
    expect(one.did).not.toBe(other.did)
  })

  test('makes the headers of a request that authenticates over a real socket', async () => {
    const wallet = await createWallet()
    const response = await fetch(url, { headers: await wallet.headers(oracle.did) })
    expect(await response.json()).toEqual({ did: wallet.did, registry: true })
    expect((await fetch(url)).status).toBe(401)
  })
})
