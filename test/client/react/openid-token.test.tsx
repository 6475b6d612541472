import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { getOpenIdToken, OraclesProvider, useGetOpenIdToken } from '../../../client/index.ts'
import type * as MessagingServer from '../../../client/later/messaging-server.ts'
import { testWallet } from '../oracle.ts'
import { hook, mount, until } from '../page.ts'

/** A stand-in of the one route of a homeserver that mints OpenID tokens. */
const homeServer = {
  url: '',
  minted: [] as string[],
  status: 200,
  body: undefined as object | undefined,
}
const server = createServer(({ url = '', headers }, res) => {
  const userId = decodeURIComponent(/\/user\/([^/]+)\/openid\/request_token$/.exec(url)?.[1] ?? '')
  homeServer.minted.push(`${userId} ${headers.authorization}`)
  const token = {
    access_token: `token-${homeServer.minted.length}`,
    token_type: 'Bearer',
    matrix_server_name: 'm.example',
    expires_in: 3600,
  }
  res.writeHead(homeServer.status, { 'content-type': 'application/json' })
  res.end(JSON.stringify(homeServer.body ?? token))
})

beforeEach(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  Object.assign(homeServer, { url, minted: [], status: 200, body: undefined })
})
afterEach(() => {
  vi.useRealTimers()
  server.closeAllConnections()
  server.close()
})

const { initialWallet, ...mint } = await testWallet()
const mine = (more: object = {}) => ({
  userId: '@did-ixo-me:m.example',
  matrixAccessToken: 'syt_secret',
  did: initialWallet.did,
  homeServer: homeServer.url,
  ...more,
})
const walletOf = (accessToken = 'syt_secret', more: object = {}) => ({
  ...initialWallet,
  matrix: { accessToken, homeServer: homeServer.url },
  ...more,
})

/** The code that mints, as another load of the page has it: with the browser's storage, and an empty memory. */
async function reloaded(): Promise<typeof MessagingServer> {
  vi.resetModules()
  return import('../../../client/later/messaging-server.ts')
}

it('ten consumers are served by one, and so is a page that is loaded again', async () => {
  const seen: (string | undefined)[] = []
  function Consumer() {
    seen.push(useGetOpenIdToken().openIdToken?.access_token)
    return null
  }
  mount(
    <OraclesProvider {...mint} initialWallet={walletOf()}>
      {Array.from({ length: 10 }, (_, i) => (
        <Consumer key={i} />
      ))}
    </OraclesProvider>,
  )
  await until(() => seen.filter((token) => token === 'token-1').length === 10)
  expect(homeServer.minted).toEqual([
    `@did-ixo-ixo1test:${new URL(homeServer.url).host} Bearer syt_secret`,
  ])

  const all = await Promise.all(Array.from({ length: 10 }, () => getOpenIdToken(mine())))
  expect(new Set(all.map(({ access_token }) => access_token))).toEqual(new Set(['token-2']))
  const { openIdToken } = await reloaded()
  expect((await openIdToken(mine())).access_token).toBe('token-2')
  expect(homeServer.minted).toHaveLength(2)
})

it('what the browser keeps is unreadable, and opens with the access token and the DID alone', async () => {
  await getOpenIdToken(mine({ userId: '@read:m.example' }))
  const kept = localStorage.getItem('oracle-openid-token @read:m.example') ?? ''
  const bytes = Buffer.from(kept, 'base64')
  for (const word of ['token-1', 'access_token', 'm.example', 'syt_secret'])
    expect(bytes.includes(word)).toBe(false)
  for (const [count, other] of [
    [2, { matrixAccessToken: 'syt_other' }],
    [3, { did: 'did:key:zOther' }],
  ] as const) {
    localStorage.setItem('oracle-openid-token @read:m.example', kept)
    const { openIdToken } = await reloaded()
    const { access_token } = await openIdToken(mine({ userId: '@read:m.example', ...other }))
    expect(access_token).toBe(`token-${count}`)
  }
})

it('another user of the same browser gets his own', async () => {
  const tokens: string[] = []
  for (const userId of ['@a:m.example', '@b:m.example', '@a:m.example', '@b:m.example']) {
    const { openIdToken } = await reloaded()
    tokens.push((await openIdToken(mine({ userId }))).access_token)
  }
  expect(tokens).toEqual(['token-1', 'token-2', 'token-1', 'token-2'])
})

it('is renewed five minutes before its end, and the hook renews it by itself', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], shouldAdvanceTime: true })
  const seen = hook(useGetOpenIdToken, (child) => (
    <OraclesProvider {...mint} initialWallet={walletOf('syt_renew')}>
      {child}
    </OraclesProvider>
  ))
  await until(() => seen.now.openIdToken?.access_token === 'token-1')
  vi.setSystemTime(Date.now() + 54 * 60_000)
  const user = mine({
    userId: `@did-ixo-ixo1test:${new URL(homeServer.url).host}`,
    matrixAccessToken: 'syt_renew',
  })
  expect((await getOpenIdToken(user)).access_token).toBe('token-1')
  await vi.advanceTimersByTimeAsync(56 * 60_000)
  await until(() => seen.now.openIdToken?.access_token === 'token-2')
  expect((await getOpenIdToken(user)).access_token).toBe('token-2')
  expect(homeServer.minted).toHaveLength(2)
})

it.each([401, 403])('a refusal of %i drops what is kept', async (status) => {
  const user = mine({ userId: `@drop-${status}:m.example` })
  const key = `oracle-openid-token ${user.userId}`
  await getOpenIdToken(user)
  expect(localStorage.getItem(key)).not.toBeNull()
  homeServer.status = status
  homeServer.body = { errcode: 'M_UNKNOWN_TOKEN' }
  await expect(getOpenIdToken({ ...user, fresh: true })).rejects.toMatchObject({ status })
  expect(localStorage.getItem(key)).toBeNull()
  await expect(getOpenIdToken(user)).rejects.toMatchObject({ status })
  Object.assign(homeServer, { status: 200, body: undefined })
  expect((await getOpenIdToken(user)).access_token).toBe('token-4')
})

it('a token that was refused elsewhere is replaced by the hook’s refetch', async () => {
  const seen = hook(useGetOpenIdToken, (child) => (
    <OraclesProvider {...mint} initialWallet={walletOf('syt_again')}>
      {child}
    </OraclesProvider>
  ))
  await until(() => seen.now.openIdToken?.access_token === 'token-1')
  expect((await seen.now.refetch())?.access_token).toBe('token-2')
})

it('without WebCrypto, and without storage, it stays in memory', async () => {
  const { crypto, localStorage: storage } = globalThis
  const user = mine({ userId: '@plain:m.example' })
  Object.defineProperty(globalThis, 'crypto', { value: {}, configurable: true })
  try {
    await getOpenIdToken(user)
    expect((await getOpenIdToken(user)).access_token).toBe('token-1')
    expect(localStorage.length).toBe(0)
  } finally {
    Object.defineProperty(globalThis, 'crypto', { value: crypto, configurable: true })
  }
  Object.defineProperty(globalThis, 'localStorage', { value: undefined, configurable: true })
  try {
    expect((await getOpenIdToken(mine({ userId: '@bare:m.example' }))).access_token).toBe('token-2')
  } finally {
    Object.defineProperty(globalThis, 'localStorage', { value: storage, configurable: true })
  }
})

it.each([
  ['{}', {}],
  ['a token without an end', { access_token: 't', expires_in: 0 }],
  ['a list', []],
])('an answer that is no token is a clear error: %s', async (_, body) => {
  homeServer.body = body
  await expect(getOpenIdToken(mine({ userId: '@odd:m.example' }))).rejects.toMatchObject({
    code: 'server',
    message: expect.stringContaining('no OpenID token'),
  })
})

it('a wallet without a messaging account is told so, and nobody is asked', async () => {
  await expect(getOpenIdToken(mine({ matrixAccessToken: '' }))).rejects.toMatchObject({
    code: 'invalid_request',
  })
  expect(homeServer.minted).toEqual([])
})
