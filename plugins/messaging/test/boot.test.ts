import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import {
  type AddressInfo,
  connect,
  createServer as createSocketServer,
  type Socket,
} from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { expect, it } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import messaging from '../index.ts'
import { type Fault, Homeserver } from '../testing/homeserver.ts'
import { MessagingScene } from '../../../test/support/messaging-process.ts'
import { messagingEnv, oraclePassword, waitFor } from '../../../test/support/open-oracle.ts'
import { root } from '../../../test/support/process.ts'

const boot = (url: string, env: Record<string, string | undefined> = {}) =>
  testApp({ plugins: [messaging], fetch, env: { ...messagingEnv(url), ...env } })

/** What `/health` says of messaging now. */
async function noteOf(app: TestApp): Promise<{ state?: string; check?: string }> {
  const { body } = await app.get('/health')
  const notes: { plugin: string; state: string; check: string }[] = body.notes ?? []
  return notes.find(({ plugin }) => plugin === 'messaging') ?? {}
}

const waiting = (url: string, cause: string) =>
  `waiting for the messaging server at ${url} (MATRIX_BASE_URL): ${cause}. Check MATRIX_BASE_URL, ` +
  'MATRIX_ORACLE_ADMIN_USER_ID and MATRIX_ORACLE_ADMIN_PASSWORD or MATRIX_ORACLE_ADMIN_ACCESS_TOKEN.'

/** Boots against a server and waits for a note; HTTP answers all the while. */
async function pendingWith(url: string, cause: string, patienceMs?: number): Promise<void> {
  await using app = await boot(url)
  await waitFor(async () => (await noteOf(app)).check === waiting(url, cause), patienceMs)
  expect(await noteOf(app)).toMatchObject({ state: 'pending' })
  const refused = await app.get('/messaging')
  expect(refused.status).toBe(503)
  expect(refused.body.hint).toBe(waiting(url, cause))
}

async function listening(server: Server | ReturnType<typeof createSocketServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function homeserver(): Promise<Homeserver> {
  const server = await Homeserver.open()
  server.register('oracle', oraclePassword)
  server.register('other')
  return server
}

it('is left out by name without its variables, and says which one is missing', async () => {
  await using app = await testApp({ plugins: [messaging] })
  const [plugin] = app.report.plugins
  expect(plugin?.state).toBe('excluded')
  expect(plugin?.reason).toContain('Plugin messaging env validation failed for MATRIX_BASE_URL.')
  await using halfway = await boot('http://127.0.0.1:1234', {
    MATRIX_ORACLE_ADMIN_PASSWORD: undefined,
  })
  expect(halfway.report.plugins[0]).toMatchObject({ state: 'excluded' })
  expect(halfway.report.plugins[0]?.reason).toContain('MATRIX_ORACLE_ADMIN_ACCESS_TOKEN')
})

it('takes plain http to this machine alone, and no user name in the address', async () => {
  for (const url of ['http://matrix.example.org', 'https://me:secret@matrix.example.org'])
    await expect(boot(url)).rejects.toThrow(/MATRIX_BASE_URL/)
})

it('is pending while the connection is refused, and loads once the server is there', async () => {
  const server = await homeserver()
  const { url } = server
  await server.stop()
  await using app = await boot(url)
  await waitFor(async () => (await noteOf(app)).check === waiting(url, 'connection refused'))
  await server.listen()
  await waitFor(async () => (await app.get('/messaging')).status === 200)
  expect(app.log.some((line) => line.includes('messaging pending -> loaded'))).toBe(true)
  expect((await app.get('/messaging')).body).toEqual({
    userId: '@oracle:home.test',
    servers: ['home.test'],
    linking: ['code', 'openid'],
  })
  await app.close()
  await server.stop()
})

it('says within 16 s that a server accepts and stays silent', async () => {
  const sockets = createSocketServer()
  const url = await listening(sockets)
  await pendingWith(url, 'no answer within 15 s', 16_500)
  sockets.close()
})

const answers: readonly (readonly [what: string, fault: Fault, cause: string])[] = [
  ['answers 502', { status: 502, text: 'Bad Gateway' }, 'it answers 502'],
  ['is no Matrix server', { status: 200, text: '<html>' }, 'no Matrix server answers there'],
  [
    'asks to wait',
    { status: 429, body: { errcode: 'M_LIMIT_EXCEEDED', retry_after_ms: 12_000 } },
    'it asks to wait 12 s',
  ],
  ['closes the connection', 'close', 'it closes the connection'],
]

for (const [what, fault, cause] of answers)
  it(`is pending with the cause when the server ${what}`, async () => {
    await using server = await homeserver()
    server.fault = () => fault
    await pendingWith(server.url, cause)
  })

it('knows a page that is none of Matrix from an answer of Matrix', async () => {
  const page = createServer((_, response) => response.end('{"hello":"world"}'))
  const url = await listening(page)
  await pendingWith(url, 'no Matrix server answers there')
  page.close()
})

/** Boots and waits until messaging has failed for good. */
async function failure(server: Homeserver, env: Record<string, string | undefined>) {
  await using app = await boot(server.url, env)
  await waitFor(async () => (await noteOf(app)).state === 'failed')
  const asked = server.seen.length
  const { check } = await noteOf(app)
  expect(server.seen.length).toBe(asked)
  return check
}

it('fails for good when a token or a password is rejected, and when the account is another one', async () => {
  await using server = await homeserver()
  const password = 'MATRIX_ORACLE_ADMIN_PASSWORD'
  const token = 'MATRIX_ORACLE_ADMIN_ACCESS_TOKEN'
  expect(await failure(server, { [password]: 'wrong' })).toContain(
    'the password was rejected (MATRIX_ORACLE_ADMIN_PASSWORD)',
  )
  expect(await failure(server, { [password]: undefined, [token]: 'wrong' })).toContain(
    'the access token was rejected (MATRIX_ORACLE_ADMIN_ACCESS_TOKEN)',
  )
  const other = server.accounts.tokenFor('@other:home.test').token
  expect(await failure(server, { [token]: other })).toContain(
    'the token belongs to @other:home.test, not to MATRIX_ORACLE_ADMIN_USER_ID',
  )
  const account = server.accounts.get('@oracle:home.test')
  if (account) account.isActive = false
  expect(await failure(server, {})).toContain('the account is deactivated')
})

it('takes the password where the token is rejected', async () => {
  await using server = await homeserver()
  await using app = await boot(server.url, { MATRIX_ORACLE_ADMIN_ACCESS_TOKEN: 'wrong' })
  await waitFor(async () => (await app.get('/messaging')).status === 200)
})

it('logs in again by password when its token is revoked in operation', async () => {
  await using server = await homeserver()
  await using app = await boot(server.url)
  await waitFor(async () => (await app.get('/messaging')).status === 200)
  const before = server.accounts.get('@oracle:home.test')?.devices.size
  server.accounts.revoke('@oracle:home.test')
  server.devicesChanged('@other:home.test')
  await waitFor(async () => server.seen.filter(({ path }) => path.endsWith('/login')).length === 2)
  await waitFor(async () => server.seen.at(-1)?.path.endsWith('/sync') === true)
  expect(server.accounts.get('@oracle:home.test')?.devices.size).toBe(before)
})

it('writes no password and no token into its log', async () => {
  await using server = await homeserver()
  const earlier = { MATRIX_STORE_PATH: '/tmp/store', MATRIX_VALUE_PIN: '4711-0815' }
  await using app = await boot(server.url, { LOG_LEVEL: 'debug', ...earlier })
  await waitFor(async () => (await app.get('/messaging')).status === 200)
  const text = app.log.join('\n')
  expect(text).toContain('MATRIX_VALUE_PIN, MATRIX_STORE_PATH: set, and not needed any more')
  for (const value of Object.values(earlier)) expect(text).not.toContain(value)
  expect(text).not.toContain(oraclePassword)
  expect(text).not.toMatch(/syt_/)
  expect(text).not.toContain('ab'.repeat(32))
})

it('says that the certificate of the server is another one now, and goes on once it is the right one', async () => {
  const read = (folder: string) => {
    const [key, cert] = ['tls-key.pem', 'tls-certificate.pem'].map((name) =>
      readFileSync(join(root, folder, name)),
    )
    return { key, cert }
  }
  const [right, wrong] = [read('test/webhooks'), read('plugins/query-gateway/test')]
  const scene = await MessagingScene.open()
  const sockets = new Set<Socket>()
  const proxy = createTlsServer(right, (outside) => {
    const inside = connect(Number(new URL(scene.server.url).port), '127.0.0.1')
    for (const one of [outside, inside]) {
      sockets.add(one)
      one.on('error', () => undefined).on('close', () => sockets.delete(one))
    }
    outside.pipe(inside).pipe(outside)
  })
  const token = 'operator-token-of-the-certificates'
  try {
    const oracle = scene.oracle()
    await oracle.start({
      MATRIX_BASE_URL: (await listening(proxy)).replace('http://127.0.0.1', 'https://localhost'),
      NODE_EXTRA_CA_CERTS: join(root, 'test/webhooks/tls-certificate.pem'),
      OPERATOR_TOKEN: token,
    })
    const ann = await scene.person('ann')
    const room = await scene.directRoom(ann)
    const become = (context: ReturnType<typeof read>) => {
      proxy.setSecureContext(context)
      for (const one of sockets) one.destroy()
    }
    become(wrong)
    await ann.say(room, 'question behind')
    const headers = { authorization: `Bearer ${token}` }
    const cause = async () => (await fetch(`${oracle.url}/messaging/status`, { headers })).text()
    await waitFor(async () => (await cause()).includes('"cause":"certificate: '))
    become(right)
    await ann.hears(room, 'and that was question behind.')
    expect(scene.said(ann, room)).toHaveLength(1)
  } finally {
    proxy.close()
    for (const one of sockets) one.destroy()
    await scene.close()
  }
}, 90_000)
