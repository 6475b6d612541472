import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { fakeWebhook, testApp } from '#core/testing'
import registry from '../index.ts'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('subscriptions', (where) => {
  const app = registryApp(where)
  const patience = { timeout: 60_000 }
  const subscribe = async (url: string, secret: string, condition: string) => {
    const made = await app.post('/v1/subscriptions', { where: condition, url, secret })
    expect(made).toMatchObject({ status: 201, body: { state: 'active', where: condition } })
    return made.body
  }

  it('post what concerns them in order, and a repeat under the same id', async () => {
    await using receiver = await fakeWebhook()
    const { did } = await app.entity({ type: 'Heard' })
    const made = await subscribe(receiver.url, receiver.secret, "@type = 'Heard'")
    receiver.answer(503, 204)
    await app.entity({ type: 'Unheard' })
    for (let n = 1; n <= 3; n++)
      await app.patch(app.at(did), { properties: { n } }, { 'if-match': '*' })
    await app.delete(app.at(did), { 'if-match': '*' })
    const got = []
    for (let n = 0; n < 5; n++) got.push(await receiver.next())
    expect(
      got.map(({ isValid, status, body }: any) => [isValid, status, body.event, body.version]),
    ).toEqual([
      // any: members of a body
      [true, 503, 'entity.updated', 2],
      [true, 204, 'entity.updated', 2],
      [true, 204, 'entity.updated', 3],
      [true, 204, 'entity.updated', 4],
      [true, 204, 'entity.deactivated', 5],
    ])
    const ids = got.map(({ id }) => id)
    expect(ids[0]).toBe(ids[1])
    expect(new Set(ids).size).toBe(4)
    expect(JSON.stringify((await app.get('/v1/subscriptions')).body)).not.toContain(receiver.secret)
    expect((await app.delete(`/v1/subscriptions/${made.id}`)).status).toBe(200)
    expect((await app.get(`/v1/subscriptions/${made.id}`)).status).toBe(404)
  }, 120_000)

  it('are dead, and listed as such, once the receiver wants no more', async () => {
    await using receiver = await fakeWebhook()
    const { id } = await subscribe(receiver.url, receiver.secret, "@type = 'Refused'")
    receiver.answer(410)
    await app.entity({ type: 'Refused' })
    await receiver.next()
    const dead = async () => (await app.get('/v1/subscriptions?state=dead')).body.items
    await expect
      .poll(dead, patience)
      .toMatchObject([{ id, state: 'dead', error: expect.stringContaining('DELIVERY_REFUSED') }])
    expect(JSON.stringify(await dead())).not.toContain(receiver.secret)
    // Revived, it goes on from where it gave up: nothing is lost, and the change that failed has the id that it had.
    receiver.answer(204)
    const revived = await app.post(`/v1/subscriptions/${id}/revival`, {})
    expect(revived).toMatchObject({ status: 200, body: { id, state: 'active' } })
    expect(revived.body.error).toBeUndefined()
    expect(await receiver.next()).toMatchObject({ status: 204, body: { event: 'entity.created' } })
    expect(await dead()).toEqual([])
  }, 120_000)

  it('refuse addresses inside, this server, and secrets and conditions that are none', async () => {
    const good = { url: 'https://hooks.example/x', secret: 'a secret of mine'.replaceAll(' ', '-') }
    const refused: [object, string][] = [
      [{ ...good, url: 'http://hooks.example/x' }, 'url'],
      [{ ...good, url: 'https://10.0.0.1/x' }, 'url'],
      [{ ...good, url: 'https://169.254.169.254/latest' }, 'url'],
      [{ ...good, url: 'https://[fd00::1]/x' }, 'url'],
      [{ ...good, url: 'https://[::ffff:10.0.0.1]/x' }, 'url'],
      [{ ...good, url: 'https://user:pass@hooks.example/' }, 'url'],
      [{ ...good, url: 'file:///etc/passwd' }, 'url'],
      [{ ...good, secret: 'short' }, 'secret'],
      [{ ...good, secret: 'whsec_not base64 at all' }, 'secret'],
      [{ ...good, where: 'power = ' }, 'where'],
      [{ ...good, where: 'nothing.like.this = 1' }, 'where'],
    ]
    for (const [body, path] of refused) {
      const answer = await app.post('/v1/subscriptions', body)
      expect([body, answer.status, answer.body.details?.[0].path]).toEqual([body, 400, path])
      expect(JSON.stringify(answer.body)).not.toContain('not base64 at all')
    }
    for (const path of ['/', '/v1/entities'])
      expect(
        await app.post('/v1/subscriptions', { ...good, url: `${app.url}${path}` }),
      ).toMatchObject({
        status: 400,
        body: {
          message: expect.stringContaining(
            'the address of this server, which would hear of itself',
          ),
        },
      })
    const made = await app.post('/v1/subscriptions', good)
    expect(made.status).toBe(201)
    const stranger = await app.app.user()
    await app.entity({ controller: stranger.did })
    expect((await stranger.get(`/v1/subscriptions/${made.body.id}`)).status).toBe(404)
    expect((await stranger.get('/v1/subscriptions')).body).toEqual({ items: [] })
  })
})

it('outlive a receiver that is down for an hour, and lose nothing', async () => {
  await using receiver = await fakeWebhook()
  await using app = await testApp({ plugins: [registry], env: { API_KEY: apiKeys }, clock: true })
  const send = async (path: string, body: object) => {
    const answer = await app.post(path, body, asKey)
    expect(answer.status).toBe(201)
    return answer.body
  }
  const { did: protocol } = await send('/v1/protocols', { type: 'Protocol' })
  const { id } = await send('/v1/subscriptions', { url: receiver.url, secret: receiver.secret })
  // The waits between attempts double from a second on, so that the twelfth failure comes after half an hour.
  for (let n = 0; n < 12; n++) receiver.answer(503)
  const first = await send('/v1/entities', { type: 'Stove', protocol, properties: {} })
  const second = await send('/v1/entities', { type: 'Stove', protocol, properties: {} })
  await app.clock.advance('1h')
  const failed = receiver.received.filter(({ status }) => status === 503)
  expect(failed.length).toBeGreaterThan(5)
  expect(new Set(failed.map((one) => one.id)).size).toBe(1)
  expect((await app.get(`/v1/subscriptions/${id}`, { headers: asKey })).body.state).toBe('active')
  const heard = () => receiver.received.filter(({ status }) => status === 204)
  for (let hours = 0; hours < 3 && heard().length < 2; hours++) await app.clock.advance('1h')
  expect(heard().map(({ body }: any) => body.did)).toEqual([first.did, second.did]) // any: a member of a body
  expect(heard()[0]?.id).toBe(failed[0]?.id)
  expect(app.log.length).toBeGreaterThan(0)
  expect(app.log.join()).not.toContain(receiver.secret)
}, 60_000)

it('outlive a receiver where nothing listens for an hour, and tell the changes of each entity in order', async () => {
  const heard: { id: string; did: string; version: number }[] = []
  const receiver = createServer((request, response) => {
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString()))
    request.on('end', () => {
      heard.push({ ...JSON.parse(text), id: String(request.headers['webhook-id']) })
      response.writeHead(204).end()
    })
  })
  const listen = async (port: number) => {
    receiver.listen(port, '127.0.0.1')
    await once(receiver, 'listening')
    return (receiver.address() as AddressInfo).port
  }
  const port = await listen(0)
  receiver.close()
  await using app = await testApp({ plugins: [registry], env: { API_KEY: apiKeys }, clock: true })
  const secret = 'a-secret-that-nobody-logs'
  const send = async (path: string, body: object) =>
    (await app.post(path, body, asKey)).body as { did: string; id: string }
  const { did: protocol } = await send('/v1/protocols', {
    type: 'Protocol',
    properties: { n: 'number' },
  })
  const { id } = await send('/v1/subscriptions', { url: `http://127.0.0.1:${port}/x`, secret })
  const dids: string[] = []
  for (let n = 0; n < 2; n++)
    dids.push((await send('/v1/entities', { type: 'Stove', protocol, properties: {} })).did)
  for (let n = 1; n <= 3; n++)
    for (const did of dids)
      await app.patch(`/v1/entities/${did}`, { properties: { n } }, { ...asKey, 'if-match': '*' })
  await app.clock.advance('1h')
  expect((await app.get(`/v1/subscriptions/${id}`, { headers: asKey })).body.state).toBe('active')
  expect(heard).toEqual([])
  await listen(port)
  onTestFinished(() => {
    receiver.closeAllConnections()
    receiver.close()
  })
  for (let hours = 0; hours < 3 && heard.length < 8; hours++) await app.clock.advance('1h')
  expect(new Set(heard.map((one) => one.id)).size).toBe(8)
  for (const did of dids)
    expect(heard.filter((one) => one.did === did).map(({ version }) => version)).toEqual([
      1, 2, 3, 4,
    ])
  expect(app.log.join()).not.toContain(secret)
}, 120_000)

it('are refused where they would post to their own server, however its name is written', async () => {
  const env = { API_KEY: apiKeys, PUBLIC_URL: 'https://oracle.example' }
  await using app = await testApp({ plugins: [registry], env })
  const secret = 'a-secret-of-sixteen'
  for (const url of [
    'https://oracle.example/v1/entities',
    'https://ORACLE.example:443/',
    'https://oracle.example./x',
  ])
    expect(await app.post('/v1/subscriptions', { url, secret }, asKey)).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('the address of this server') },
    })
  const other = { url: 'https://oracle.example:8443/', secret }
  expect((await app.post('/v1/subscriptions', other, asKey)).status).toBe(201)
})
