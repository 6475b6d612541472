import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { OpenOracle } from '../support/open-oracle.ts'
import { openPage, until, type Page } from './page.ts'

// The published client finds the oracle's account by the address that the chain names.
const did = 'did:ixo:ixo1reader'
const address = 'ixo1reader'
const account = `@did-ixo-${address}:home.test`

const oracleId = '@did-ixo-ixo1oracle:home.test'

const open = new OpenOracle({ account: 'did-ixo-ixo1oracle' })
let page: Page
beforeAll(async () => void (page = await openPage(19)), 60_000)

/** Sends what is meant for `https://home.test` to the small server. */
function reachHome(): void {
  const { fetch } = globalThis
  globalThis.fetch = (input, init) =>
    fetch(String(input).replace('https://home.test', open.server.url), init)
  onTestFinished(() => void (globalThis.fetch = fetch))
}

function hook(accessToken: string, use: () => any) {
  const { createElement } = page.react
  const seen: any[] = []
  const Probe = () => {
    seen.push(use())
    return null
  }
  const initialWallet = { address, did, matrix: { accessToken, homeServer: 'home.test' } }
  const given = {
    initialWallet,
    transactSignX: async () => undefined,
    createDelegation: async () => ({ serialized: 'none', expiresAt: Date.now() + 60_000 }),
  }
  page.mount(createElement(page.client.OraclesProvider, given, createElement(Probe)))
  return {
    get now() {
      return seen.at(-1)
    },
  }
}

it('the published client contracts an oracle: spaces, joins, one room at every call, and its memory engine', async () => {
  reachHome()
  open.server.register('engine')
  const person = await open.person(`did-ixo-${address}`)
  const token = String(person.api.token)
  const matrix = {
    homeServer: 'https://home.test',
    homeServerCropped: 'home.test',
    roomsBot: open.app.url,
  }
  const authz = { granteeAddress: 'ixo1oracle', oracleName: 'Oracle' }
  Object.assign(globalThis, { chainOfTest: { matrix, authz, card: {} } })
  onTestFinished(() => void Object.assign(globalThis, { chainOfTest: undefined }))
  const { oracleDid } = open.app
  const params = { oracleDid, adminAddress: 'ixo1admin', userClaimCollectionId: '1' }
  const contract = hook(token, () => page.client.useContractOracle({ params }))
  await until(() => contract.now?.contractOracle)
  await contract.now.contractOracle({ useAuthz: false })
  await contract.now.contractOracle({ useAuthz: false })
  const alias = `#${did.replaceAll(':', '-')}_${oracleDid.replaceAll(':', '-')}:home.test`
  const roomId = open.server.aliases.get(alias)?.roomId ?? ''
  const room = open.server.room(roomId)
  expect(room.members().sort()).toEqual([account, oracleId].sort())
  const spaces = [...open.server.rooms.values()].filter(
    (one) => one.state('m.room.create')?.content.type === 'm.space',
  )
  expect(spaces).toHaveLength(2)
  for (const space of spaces) expect(space.membership(account)).toBe('join')

  const again = hook(token, () => page.client.useContractOracle({ params }))
  await until(() => again.now?.isOracleInRoom === true)

  const engine = hook(token, () => page.client.useMemoryEngine(oracleDid))
  await until(() => engine.now?.oracleRoomId === roomId)
  await until(() => engine.now?.members?.includes(oracleId))
  await engine.now.enableMemoryEngine('@engine:home.test')
  expect(room.membership('@engine:home.test')).toBe('invite')
  expect(room.levelOf('@engine:home.test')).toBe(50)
  await until(() => engine.now?.members?.includes('@engine:home.test'))
})

it('the published client mints an OpenID token that links the account', async () => {
  reachHome()
  const { token } = open.server.accounts.tokenFor(account)
  const minted = await page.client.getOpenIdToken({
    userId: account,
    matrixAccessToken: token,
    did,
  })
  const user = await open.app.user()
  const linked = await user.post('/messaging/identity', minted)
  expect(linked.body).toEqual({ userId: account, did: user.did })
})
