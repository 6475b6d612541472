import { expect, it } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { registryApp, stove } from '../../test/support/registry.ts'

await onEachDatabase('entities', (where) => {
  const app = registryApp(where)

  it('are created from type, protocol and properties, and read back', async () => {
    const protocol = await app.protocol(stove)
    const answer = await app.post('/v1/entities', {
      type: 'CookstoveEntity',
      protocol: protocol.did,
      properties: { name: 'Stove 1', fuel: 'ethanol' },
    })
    expect(answer.status).toBe(201)
    const { did, createdAt } = answer.body
    expect(did).toMatch(/^did:ixo:entity:[0-9a-f]{32}$/)
    expect(answer.body).toEqual({
      did,
      type: 'CookstoveEntity',
      controller: app.oracleDid,
      protocol: { did: protocol.did, version: 1 },
      properties: { name: 'Stove 1', fuel: 'ethanol' },
      services: [],
      verifiableCredential: [],
      relationships: [],
      status: 'active',
      version: 1,
      createdAt,
      updatedAt: createdAt,
    })
    expect(answer.headers.get('etag')).toBe('"1"')
    const location = answer.headers.get('location')!
    expect(location).toBe(`/v1/entities/${encodeURIComponent(did)}`)
    const read = await app.get(location)
    expect(read.body).toEqual(answer.body)
    expect(read.headers.get('etag')).toBe('"1"')
    expect((await app.get('/v1/entities/did:ixo:entity:none')).status).toBe(404)
  })

  it('of an organisational domain come with their membership groups', async () => {
    const organisation = await app.entity({ type: 'OrganisationEntity', did: 'did:ixo:org:1' })
    expect(organisation).toMatchObject({
      class: 'cognitive-twin',
      relationships: [{ role: 'contains', target: 'did:ixo:org:1:group:members' }],
    })
    const group = await app.get(`/v1/entities/${encodeURIComponent('did:ixo:org:1:group:members')}`)
    expect(group.body).toMatchObject({ type: 'MembershipGroup', properties: { name: 'members' } })
    const own = await app.entity({ type: 'Anything', class: 'cognitive-twin', groups: ['a', 'b'] })
    expect(own.relationships).toEqual(
      ['a', 'b'].map((name) => ({ role: 'contains', target: `${own.did}:group:${name}` })),
    )
  })
})
