import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { definePlugin } from '#core'
import memory from '../../plugins/memory/index.ts'
import type { Remembering } from '../../plugins/memory/remembering.ts'
import { OpenOracle } from '../support/open-oracle.ts'
import { openPage, type Page, until } from './page.ts'

let self: Remembering | undefined
const probe = definePlugin({
  name: 'memory-probe',
  summary: 'Hands the parts of memory to the test.',
  requires: [memory],
  setup: ({ plugins }) => void (self = plugins.memory),
})
const engine = '@memory:home.test'
const did = 'did:ixo:ixo1pair'
/** Where the client believes the homeserver to be, which has a name and no address here. */
const named = 'https://home.test'

describe('the published client and memory', () => {
  const open = new OpenOracle({
    plugins: [memory, probe],
    env: { MEMORY_ENGINE_USER_ID: engine },
  })
  let page: Page
  beforeAll(async () => void (page = await openPage(19)), 60_000)

  /** Brings requests for the homeserver's name to the small one, which lacks two questions: they are answered from its rooms. */
  function nameHomeserver(): void {
    const { fetch } = globalThis
    globalThis.fetch = async (input, init) => {
      const url = String(input)
      if (!url.startsWith(named)) return fetch(input, init)
      const [, room = '', what] =
        /\/rooms\/([^/]+)\/(members|state\/m\.room\.power_levels)$/.exec(url) ?? []
      const found = open.server.rooms.get(decodeURIComponent(room))
      if (found && (init?.method ?? 'GET') === 'GET') {
        if (what === 'members')
          return Response.json({
            chunk: found.wholeState
              .filter(({ type }) => type === 'm.room.member')
              .map(({ state_key }) => ({ user_id: state_key })),
          })
        return Response.json(found.state('m.room.power_levels')?.content)
      }
      return fetch(url.replace(named, open.server.url), init)
    }
    onTestFinished(() => void (globalThis.fetch = fetch))
    const urls = { homeServer: named, homeServerCropped: 'home.test', roomsBot: open.app.url }
    Object.assign(globalThis, { chainOfTest: { matrix: urls } })
  }

  it('turns memory on by `enableMemoryEngine(engineUserId)`; the leaving of the account pauses it', async () => {
    nameHomeserver()
    const person = await open.person('did-ixo-ixo1pair')
    open.server.register('memory')
    open.server.register('stranger')
    const mode = async () => (await self?.settingsOf(did))?.mode
    const { createElement } = page.react
    const seen: any[] = []
    function Probe() {
      seen.push(page.client.useMemoryEngine(open.app.oracleDid))
      return null
    }
    const made = await open.app.post(
      '/spaces/oracle/create',
      { did, oracleDid: open.app.oracleDid },
      { authorization: `Bearer ${person.api.token}` },
    )
    await person.join(made.body.roomId)
    const wallet = {
      initialWallet: {
        address: 'ixo1pair',
        did,
        matrix: { accessToken: person.api.token, homeServer: named },
      },
      transactSignX: async () => undefined,
    }
    page.mount(createElement(page.client.OraclesProvider, wallet, createElement(Probe)))
    await until(() => seen.at(-1)?.enableMemoryEngine)
    expect(await mode()).toBe('ask')
    await seen.at(-1).enableMemoryEngine('@stranger:home.test')
    await seen.at(-1).enableMemoryEngine(engine)
    await expect.poll(mode, { timeout: 30_000 }).toBe('on')
    const room = open.server.room(made.body.roomId)
    expect([room.membership(engine), room.levelOf(engine)]).toEqual(['invite', 50])
    const { token } = open.server.accounts.tokenFor(engine)
    const left = await fetch(
      `${open.server.url}/_matrix/client/v3/rooms/${encodeURIComponent(made.body.roomId)}/leave`,
      { method: 'POST', headers: { authorization: `Bearer ${token}` }, body: '{}' },
    )
    expect(left.status).toBe(200)
    await expect.poll(mode, { timeout: 30_000 }).toBe('paused')
  }, 120_000)
})
