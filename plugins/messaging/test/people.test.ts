import { createServer } from 'node:http'
import { beforeAll, describe, expect, it } from 'vitest'
import { definePlugin, type Database } from '#core'
import type { TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId } from '../../../test/support/open-oracle.ts'
import { withMessagingTables } from '../tables.ts'

describe('invitations', () => {
  const open = new OpenOracle({ env: { MESSAGING_ALLOW: '@eva:home.test' } })

  it('are declined without a word where MESSAGING_ALLOW names others', async () => {
    const [eva, fin] = [await open.person('eva'), await open.person('fin')]
    const room = await fin.createRoom({ invite: [oracleId] })
    await expect.poll(() => open.server.room(room).membership(oracleId)).toBe('leave')
    const group = await open.directRoom(eva, false)
    await eva.api.post(`/_matrix/client/v3/rooms/${encodeURIComponent(group)}/invite`, {
      user_id: fin.userId,
    })
    await fin.join(group)
    open.replies.push('Hello Eva.')
    await fin.say(group, 'oracle: do you hear me?')
    await eva.say(group, 'oracle: hello')
    await eva.hears(group, 'Hello Eva.')
    expect(open.model.requests).toHaveLength(1)
  })
})

describe('a DID in a name', () => {
  const env = { MESSAGING_ALLOW: '*', MESSAGING_DID_SERVERS: 'listed.test' }
  const open = new OpenOracle({ env })

  it('counts on a server of MESSAGING_DID_SERVERS alone', async () => {
    const person = await open.person('did-ixo-ixo1abc')
    const rooms = { own: await open.directRoom(person, false), group: '' }
    await person.say(rooms.own, '!status')
    await person.hears(rooms.own, 'I take you for a guest.')
    rooms.group = await person.createRoom({ invite: [oracleId] })
    const room = open.server.room(rooms.group)
    await expect.poll(() => room.membership(oracleId)).toBe('join')
    const status = { msgtype: 'm.text', body: 'oracle: !status' }
    const say = (sender: string) => {
      room.add({
        type: 'm.room.member',
        sender,
        state_key: sender,
        content: { membership: 'join' },
      })
      room.add({ type: 'm.room.message', sender, content: status })
    }
    const told = () =>
      person.seen(rooms.group).flatMap(({ sender, body }) => (sender === oracleId ? [body] : []))
    for (const foreign of [
      '@did-ixo-ixo1abc:evil.test',
      '@did-ixo-ixo1abc:listed.test.evil.test',
    ]) {
      const before = told().length
      say(foreign)
      await expect.poll(() => told().length).toBe(before + 1)
      expect(told().at(-1)).toContain('I take you for a guest.')
    }
    say('@did-ixo-ixo1abc:listed.test')
    await person.hears(rooms.group, 'I take you for did:ixo:ixo1abc.')
  })
})

await onEachDatabase('people', ({ databaseUrl }) => {
  const asked: string[] = []
  const slow = { bytes: 0, isClosed: false }
  const elsewhere = createServer((request, response) => {
    const token = new URL(request.url ?? '/', 'http://x').searchParams.get('access_token')
    asked.push(token ?? 'no token')
    if (token === 'redirect')
      return void response.writeHead(302, { location: '/?access_token=followed' }).end()
    if (token === 'slow') {
      response.on('close', () => (slow.isClosed = true))
      const drip = () => {
        slow.bytes += response.write('x'.repeat(1_000)) ? 1_000 : 0
        if (!slow.isClosed && slow.bytes < 10_000_000) setImmediate(drip)
      }
      return drip()
    }
    if (token === 'large') return void response.end(`"${'x'.repeat(10_000_000)}"`)
    response.end(JSON.stringify({ sub: token === 'forged' ? '@ann:home.test' : '@ann:else.test' }))
  })
  const port = 20_000 + Math.floor(Math.random() * 10_000)
  beforeAll(() => new Promise<void>((resolve) => elsewhere.listen(port, '127.0.0.1', resolve)))
  const servers = `home.test,else.test=http://127.0.0.1:${port}`
  const env = { MESSAGING_OPENID_SERVERS: servers, OPERATOR_TOKEN: 'operator-token-of-this-test' }
  let db: Database | undefined
  const probe = definePlugin({
    name: 'table-probe',
    summary: 'Hands the database to the test.',
    setup: (boot) => void (db = boot.db),
  })
  const open = new OpenOracle({ databaseUrl, env, plugins: [probe] })
  const operator = { headers: { authorization: 'Bearer operator-token-of-this-test' } }

  it('links an account by a code, once, and ends the link', async () => {
    const person = await open.person('ann')
    const room = await open.directRoom(person)
    const user = await open.app.user()
    await person.say(room, '!status')
    await person.hears(room, 'I take you for a guest.')
    const { body } = await user.post('/messaging/links')
    expect(body.code).toMatch(/^[A-Z2-9]{8}$/)
    await person.say(room, `!LINK ${body.code.toLowerCase()}`)
    await person.hears(room, 'This account is linked to you now.')
    await person.say(room, '!status')
    await person.hears(room, `I take you for ${user.did}.`)
    const userId = '@ann:home.test'
    expect((await user.get('/messaging/identity')).body.accounts).toEqual([
      { userId, did: user.did },
    ])
    await person.say(room, `!link ${body.code}`)
    await person.hears(room, 'That code is wrong, used or too old.')
    const other = await open.app.user()
    const path = `/messaging/identity/${encodeURIComponent(userId)}`
    expect((await other.delete(path)).status).toBe(404)
    expect((await user.delete(path)).status).toBe(200)
    expect((await user.get('/messaging/identity')).body.accounts).toEqual([])
  })

  it('takes a code from whoever writes it first, not twice, and not after ten minutes', async () => {
    const [gil, hoa] = [await open.person('gil'), await open.person('hoa')]
    const rooms = { gil: await open.directRoom(gil), hoa: await open.directRoom(hoa) }
    const [user, other] = [await open.app.user(), await open.app.user()]
    const { code } = (await user.post('/messaging/links')).body
    await gil.say(rooms.gil, `!link ${code}`)
    await gil.hears(rooms.gil, 'This account is linked to you now.')
    await hoa.say(rooms.hoa, `!link ${code}`)
    await hoa.hears(rooms.hoa, 'That code is wrong, used or too old.')
    // A code says whose it is: the account is its owner's, and the link of before is over.
    const theirs = (await other.post('/messaging/links')).body
    await gil.say(rooms.gil, `!link ${theirs.code}`)
    const accounts = async (who: TestUser) => (await who.get('/messaging/identity')).body.accounts
    await expect.poll(() => accounts(other)).toEqual([{ userId: gil.userId, did: other.did }])
    expect(await accounts(user)).toEqual([])
    const late = (await user.post('/messaging/links')).body
    if (!db) throw new Error('There is no database.')
    await withMessagingTables(db)
      .updateTable('messaging_codes')
      .set((of) => ({ expires_at: of('expires_at', '-', 600_000) }))
      .execute()
    await hoa.say(rooms.hoa, `!link ${late.code}`)
    const isRefused = ({ body }: { body: string }) => body.includes('wrong, used or too old')
    await expect.poll(() => hoa.seen(rooms.hoa).filter(isRefused).length).toBe(2)
    expect(await accounts(user)).toEqual([])
  })

  it('makes no link for a key or a delegation, which it would outlive', async () => {
    open.server.register('eve')
    const [user, agent] = [await open.app.user(), await open.app.user()]
    const { key } = (await user.post('/keys', { name: 'leaked' })).body
    const delegated = await user.wallet.delegate({
      audience: agent.did,
      capabilities: [{ can: 'oracle/call', with: user.did }],
    })
    const { text } = await agent.wallet.invoke({
      audience: open.app.oracleDid,
      capability: { can: 'oracle/call', with: user.did },
      proofs: [delegated],
    })
    const borrowed: readonly Record<string, string>[] = [
      { authorization: `Bearer ${key}` },
      { authorization: `Bearer ${text}`, 'x-auth-type': 'ucan' },
    ]
    for (const headers of borrowed) {
      const token = open.server.accounts.mintOpenId('@eve:home.test')
      expect((await open.app.get('/messaging/identity', { headers })).status).toBe(200)
      expect((await open.app.post('/messaging/links', {}, headers)).status).toBe(403)
      expect((await open.app.post('/messaging/identity', token, headers)).status).toBe(403)
    }
    expect((await user.get('/messaging/identity')).body.accounts).toEqual([])
  })

  it('rests for an hour after five wrong codes, also for a right one', async () => {
    const person = await open.person('bob')
    const room = await open.directRoom(person)
    const user = await open.app.user()
    for (let n = 0; n < 5; n++) await person.say(room, `!link WRONG${n}AA`)
    await expect
      .poll(() => person.seen(room).filter(({ body }) => body.includes('is wrong')).length)
      .toBe(5)
    const { body } = await user.post('/messaging/links')
    await person.say(room, `!link ${body.code}`)
    await person.hears(room, 'Try again in an hour.')
    expect((await user.get('/messaging/identity')).body.accounts).toEqual([])
  })

  it('links an account by an OpenID token that its own server answers for, and by no other', async () => {
    open.server.register('cid')
    const user = await open.app.user()
    const link = (token: object) => user.post('/messaging/identity', token)
    const token = open.server.accounts.mintOpenId('@cid:home.test')
    const linked = await link(token)
    expect(linked.body).toEqual({ userId: '@cid:home.test', did: user.did })
    const used = open.server.accounts.mintOpenId('@cid:home.test', -1)
    expect(await link(used)).toMatchObject({ status: 401, body: { code: 'OPENID_INVALID' } })
    const foreign = { access_token: 'x', matrix_server_name: 'evil.test' }
    expect(await link(foreign)).toMatchObject({ status: 403, body: { code: 'SERVER_NOT_ALLOWED' } })
    const at = (access_token: string) => ({ access_token, matrix_server_name: 'else.test' })
    expect(await link(at('forged'))).toMatchObject({ status: 401 })
    expect(await link(at('large'))).toMatchObject({ status: 401 })
    expect(await link(at('redirect'))).toMatchObject({ status: 503 })
    expect(asked).not.toContain('followed')
    // Ten megabytes in small pieces: nobody reads them to their end.
    expect(await link(at('slow'))).toMatchObject({ status: 401 })
    await expect.poll(() => slow.isClosed).toBe(true)
    expect(slow.bytes).toBeLessThan(10_000_000)
    expect(await link(at('good'))).toMatchObject({ status: 200 })
  })

  it('takes the DID in a name of its own server for the DID, in development', async () => {
    const person = await open.person('did-ixo-ixo1abc')
    const room = await open.directRoom(person)
    await person.say(room, '!status')
    await person.hears(room, 'I take you for did:ixo:ixo1abc.')
  })

  it('tells operators how it stands, without words and names', async () => {
    const { body } = await open.app.get('/messaging/status', operator)
    expect(body).toMatchObject({ state: 'attending', account: oracleId, undecryptable: 0 })
    expect(body.deviceId).toBe([...(open.server.accounts.get(oracleId)?.devices.keys() ?? [])][0])
    expect(JSON.stringify(body)).not.toContain('@ann')
    elsewhere.close()
  })

  it('brings a view to the page, in which a person links an account', async () => {
    const { views } = (await open.app.get('/views')).body
    expect(views).toContainEqual(
      expect.objectContaining({ name: 'messaging', module: '/messaging-page/view.js' }),
    )
    const module = await fetch(`${open.app.url}/messaging-page/view.js`)
    expect(module.status).toBe(200)
    expect(module.headers.get('content-type')).toContain('javascript')
    expect(await module.text()).toContain('/messaging/links')
  })

  it('hands out and erases what it keeps of a person', async () => {
    const person = await open.person('dan')
    const room = await open.directRoom(person)
    const user = await open.app.user()
    await user.post('/messaging/identity', open.server.accounts.mintOpenId('@dan:home.test'))
    open.replies.push('Hello Dan.')
    await person.say(room, 'hello')
    await person.hears(room, 'Hello Dan.')
    const kinds = async () =>
      (await user.export()).map((line) => ('kind' in line ? line.kind : undefined))
    expect(await kinds()).toEqual(expect.arrayContaining(['link', 'room', 'message']))
    const rooms = async () => (await user.get('/messaging/rooms')).body.rooms
    expect(await rooms()).toEqual([{ roomId: room, kind: 'direct', encrypted: true }])
    const state = `/_matrix/client/v3/rooms/${encodeURIComponent(room)}/state/m.room.name`
    await person.api.put(state, { name: 'The barn' })
    await expect
      .poll(rooms)
      .toEqual([{ roomId: room, kind: 'direct', encrypted: true, name: 'The barn' }])
    const kept = async () => {
      if (!db) throw new Error('There is no database.')
      const tables = withMessagingTables(db)
      const of = (table: 'messaging_rooms' | 'messaging_sent') =>
        tables.selectFrom(table).select('room_id').where('room_id', '=', room).execute()
      return (await Promise.all([of('messaging_rooms'), of('messaging_sent')])).flat().length
    }
    expect(await kept()).toBeGreaterThan(1)
    await user.erase()
    expect(await kept()).toBe(0)
    await person.say(room, '!status')
    await person.hears(room, 'I take you for a guest.')
  })
})
