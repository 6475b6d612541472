import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('classes of twins', (where) => {
  const app = registryApp(where)
  const device = {
    type: 'Protocol',
    class: 'physical-twin',
    identifiedBy: ['location', 'serial'],
    properties: { serial: 'string', location: 'object', n: 'number' },
  }

  it('come from the protocol, and every type that follows it inherits its class', async () => {
    const { did: protocol } = await app.protocol(device)
    const { did: child } = await app.protocol({ type: 'Protocol', extends: protocol })
    const stove = await app.entity({ type: 'Stove', protocol: child, properties: { serial: 'a' } })
    expect(stove.class).toBe('physical-twin')
    const list = await app.get(`/v1/entities?protocol=${child}&class=physical-twin`)
    expect(list.body.items).toMatchObject([{ did: stove.did, class: 'physical-twin' }])
    const make = (more: object) =>
      app.post('/v1/entities', { type: 'Stove', protocol, properties: { serial: 'b' }, ...more })
    expect((await make({ class: 'oracle-twin' })).body.details).toMatchObject([{ path: 'class' }])
    const group = await app.entity()
    const patch = { protocol, properties: { serial: 'c' } }
    const moved = await app.patch(app.at(group.did), patch, { 'if-match': '*' })
    expect(moved).toMatchObject({ status: 400, body: { details: [{ path: 'protocol' }] } })
    const changed = await app.put(`/v1/protocols/${protocol}`, { ...device, class: 'twin-system' })
    expect(changed.status).toBe(400) // identifiedBy is of physical twins
    const { identifiedBy: _, ...bare } = device
    const turned = await app.put(`/v1/protocols/${child}`, {
      ...bare,
      class: 'twin-system',
    })
    expect(turned).toMatchObject({ status: 409, body: { details: { did: stove.did } } })
  })

  it('ask a physical twin for what its protocol tells it by', async () => {
    const { did: protocol } = await app.protocol(device)
    const make = (properties: object) =>
      app.post('/v1/entities', { type: 'Stove', protocol, properties })
    for (const properties of [{}, { n: 1 }, { serial: ' ' }, { location: {} }]) {
      const { status, body } = await make(properties)
      expect([properties, status, body.details]).toEqual([
        properties,
        400,
        [{ path: 'properties', message: expect.stringContaining('location or serial') }],
      ])
    }
    expect((await make({ location: { latitude: 1, longitude: 2 } })).status).toBe(201)
    const made = await make({ serial: 'x' })
    const removed = { properties: { serial: null } }
    const patch = await app.patch(app.at(made.body.did), removed, { 'if-match': '*' })
    expect(patch.status).toBe(400)
    for (const [identifiedBy, words] of [
      [['serail'], 'did you mean "serial"?'],
      [[], 'at least one'],
    ] as const) {
      const refused = await app.post('/v1/protocols', { ...device, identifiedBy })
      expect(refused).toMatchObject({ status: 400 })
      expect(refused.body.message).toContain(words)
    }
  })

  it('show in the graph, and count in the system below an entity', async () => {
    const { did: protocol } = await app.protocol(device)
    const stoves = []
    for (let n = 0; n < 3; n++)
      stoves.push(await app.entity({ type: 'Stove', protocol, properties: { serial: `s${n}` } }))
    const system = await app.entity({
      type: 'Network',
      class: 'twin-system',
      relationships: stoves.map(({ did: target }) => ({ role: 'contains', target })),
    })
    const claim = { subject: stoves[0].did, type: 'Use', properties: { minutes: 4 } }
    expect((await app.post('/v1/claims', claim)).status).toBe(201)
    const graph = (await app.get(app.at(system.did, '/graph'))).body
    expect(graph.nodes.map((node: any) => node.class)).toEqual([
      // any: members of an answer
      'twin-system',
      ...stoves.map(() => 'physical-twin'),
    ])
    const { status, body } = await app.get(app.at(system.did, '/system?limit=2'))
    expect(status).toBe(200)
    expect(body).toMatchObject({
      did: system.did,
      flows: [{ from: 'Network', role: 'contains', to: 'Stove', edges: 3 }],
      totals: {
        members: 3,
        edges: 3,
        byType: { Stove: 3 },
        byClass: { 'physical-twin': 3 },
        claims: { submitted: 1, approved: 0, rejected: 0 },
        credentials: 0,
      },
      truncated: false,
    })
    expect(body.members).toHaveLength(2)
    expect((await app.get(app.at('did:ixo:nobody', '/system'))).status).toBe(404)
    const stranger = await app.app.user()
    await app.entity({ controller: stranger.did })
    expect((await stranger.get(app.at(system.did, '/system'))).status).toBe(404)
  })
})
