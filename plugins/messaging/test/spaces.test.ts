import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenOracle, oracleId } from '../../../test/support/open-oracle.ts'

await onEachDatabase('spaces', ({ databaseUrl }) => {
  const open = new OpenOracle({ databaseUrl })
  const did = 'did:ixo:ixo1pair'
  const account = '@did-ixo-ixo1pair:home.test'
  const create = (token: string | undefined, given: object = {}) =>
    open.app.post(
      '/spaces/oracle/create',
      { did, oracleDid: open.app.oracleDid, ...given },
      token === undefined ? {} : { authorization: `Bearer ${token}` },
    )

  it('makes the encrypted room of a person and the oracle, the same at every call', async () => {
    const person = await open.person('did-ixo-ixo1pair')
    const token = person.api.token
    const made = await create(token)
    expect(made.status).toBe(200)
    const { roomId } = made.body
    expect((await create(token)).body).toEqual({ roomId })
    const alias = `#did-ixo-ixo1pair_${open.app.oracleDid.replaceAll(':', '-')}:home.test`
    expect(open.server.aliases.get(alias)?.roomId).toBe(roomId)
    const room = open.server.room(roomId)
    expect(room.state('m.room.encryption')).toBeDefined()
    expect([room.levelOf(account), room.levelOf(oracleId)]).toEqual([100, 100])
    await person.join(roomId)
    open.replies.push('In our room.')
    await person.say(roomId, 'hello')
    await person.hears(roomId, 'In our room.')
    open.server.register('engine')
    const rooms = `/_matrix/client/v3/rooms/${encodeURIComponent(roomId)}`
    await person.api.post(`${rooms}/invite`, { user_id: '@engine:home.test' })
    const levels = await person.api
      .get(`${rooms}/state`)
      .then(() => room.state('m.room.power_levels'))
    const users = { ...levels?.content.users, '@engine:home.test': 50 }
    await person.api.put(`${rooms}/state/m.room.power_levels`, { ...levels?.content, users })
    expect(room.levelOf('@engine:home.test')).toBe(50)
    open.replies.push('Still ours.')
    await person.say(roomId, 'and now?')
    await person.hears(roomId, 'Still ours.')
  })

  it('makes it for nobody else, and for no other oracle', async () => {
    await open.person('zoe')
    const zoe = open.server.accounts.tokenFor('@zoe:home.test').token
    expect((await create(undefined)).status).toBe(401)
    expect((await create('wrong')).status).toBe(401)
    expect((await create(zoe)).status).toBe(403)
    const own = open.server.accounts.tokenFor(account).token
    expect((await create(own, { oracleDid: 'did:ixo:another' })).status).toBe(404)
  })

  it('refuses an alias that somebody else’s room holds', async () => {
    const taker = await open.person('did-ixo-ixo1taken')
    const alias = `did-ixo-ixo1taken_${open.app.oracleDid.replaceAll(':', '-')}`
    await taker.api.post('/_matrix/client/v3/createRoom', { room_alias_name: alias })
    const given = { did: 'did:ixo:ixo1taken' }
    expect(await create(taker.api.token, given)).toMatchObject({ status: 409 })
  })

  it('makes the spaces of an account once', async () => {
    const source = () => open.app.post('/spaces/source', { did })
    const first = await source()
    expect(first.status).toBe(200)
    expect((await source()).body).toEqual(first.body)
    const { space_id: space } = first.body
    expect(open.server.room(space).state('m.room.create')?.content.type).toBe('m.space')
    expect((await open.app.post('/spaces/source', { did: 'did:key:z6Mk' })).status).toBe(404)
  })
})
