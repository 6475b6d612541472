import { describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp, stove } from '../../../test/support/registry.ts'

await onEachDatabase('entities', (where) => {
  const app = registryApp(where)

  describe('are created', () => {
    it('from type, protocol and properties, and read back', async () => {
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
      expect(location).toBe(app.at(did))
      const read = await app.get(location)
      expect(read.body).toEqual(answer.body)
      expect(read.headers.get('etag')).toBe('"1"')
      expect((await app.get(location, { 'if-none-match': '"1"' })).status).toBe(304)
      expect((await app.get(app.at('did:ixo:entity:none'))).status).toBe(404)
    })

    it('with services, credentials, a controller and edges, in the order given', async () => {
      const [a, b] = [await app.entity(), await app.entity()]
      const given = {
        controller: 'did:ixo:entity/org-1',
        services: [
          { id: '#api', type: 'HTTP', endpoint: 'https://example.org/a?b=c' },
          { id: '#files', type: 'IPFS', endpoint: 'ipfs://bafy' },
        ],
        verifiableCredential: [
          { type: 'Warranty', issuer: 'did:ixo:issuer', until: '2030-01-01' },
          { type: ['VerifiableCredential', 'Test'], issuer: 'did:key:z6Mk' },
        ],
        relationships: [
          { role: 'z', target: b.did },
          { role: 'a', target: a.did, properties: { since: 2024 } },
          { role: 'y', target: b.did },
        ],
        class: 'physical-twin',
      }
      const made = await app.entity(given)
      expect(made).toMatchObject(given)
      expect(await app.read(made.did)).toEqual(made)
    })

    it('under every kind of id, which comes back through the address of the answer', async () => {
      for (const did of [
        'did:ixo:entity/device-123',
        'did:ixo:entity/a/b//c/',
        'did:web:example.com%3A3000:user',
        "did:a:b/~!$&'()*+,;=:@-._%2F",
        'did:a:b/../c',
        'did:a:history',
        'did:a:b/graph',
        `did:a:${'x'.repeat(1000)}`,
      ]) {
        const { status, headers, body } = await app.post('/v1/entities', {
          type: 'Thing',
          protocol: app.open,
          properties: {},
          did,
        })
        expect([did, status, body.did]).toEqual([did, 201, did])
        expect((await app.get(headers.get('location')!)).body).toEqual(body)
        expect((await app.get(app.at(did, '/graph'))).body.nodes).toEqual([
          { did, type: 'Thing', depth: 0 },
        ])
      }
    })

    it('once: an id in use is a conflict, also that of a protocol', async () => {
      const { did } = await app.entity({ did: 'did:ixo:once' })
      const again = await app.post('/v1/entities', {
        type: 'Other',
        protocol: app.open,
        properties: {},
        did,
      })
      expect(again).toMatchObject({ status: 409, body: { code: 'CONFLICT' } })
      expect((await app.read(did)).type).toBe('Thing')
      const own = await app.post('/v1/entities', {
        type: 'Other',
        protocol: app.open,
        properties: {},
        did: app.open,
      })
      expect(own.status).toBe(409)
      const protocol = await app.post('/v1/protocols', { type: 'Protocol', did })
      expect(protocol.status).toBe(409)
    })

    it('once for an Idempotency-Key', async () => {
      const body = { type: 'Thing', protocol: app.open, properties: { name: 'idempotent' } }
      const headers = { 'idempotency-key': 'a-key' }
      const [first, second] = [
        await app.post('/v1/entities', body, headers),
        await app.post('/v1/entities', body, headers),
      ]
      expect(second.body).toEqual(first.body)
      expect(second.headers.get('etag')).toBe('"1"')
      const { items } = (await app.get('/v1/entities?property.name=idempotent')).body
      expect(items).toHaveLength(1)
      const other = await app.post('/v1/entities', { ...body, type: 'Other' }, headers)
      expect(other.status).toBe(422)
    })

    it('only with what is needed: 400 with the path of every fault, and nothing stored', async () => {
      const good = { type: 'Refused', protocol: app.open, properties: {} }
      const service = { id: '#a', type: 'x', endpoint: 'https://a.b' }
      const wrong: [unknown, string][] = [
        [{ ...good, type: undefined }, 'type'],
        [{ ...good, type: null }, 'type'],
        [{ ...good, type: 5 }, 'type'],
        [{ ...good, type: '' }, 'type'],
        [{ ...good, type: 'a\nb' }, 'type'],
        [{ ...good, type: 'x'.repeat(101) }, 'type'],
        [{ ...good, protocol: undefined }, 'protocol'],
        [{ ...good, protocol: null }, 'protocol'],
        [{ ...good, protocol: 'no did' }, 'protocol'],
        [{ ...good, protocol: [app.open] }, 'protocol'],
        [{ ...good, properties: undefined }, 'properties'],
        [{ ...good, properties: null }, 'properties'],
        [{ ...good, properties: [] }, 'properties'],
        [{ ...good, properties: 'x' }, 'properties'],
        [{ ...good, did: 'did:x' }, 'did'],
        [{ ...good, did: 'did:a:b#c' }, 'did'],
        [{ ...good, did: 'did:a:b\n' }, 'did'],
        [{ ...good, did: '' }, 'did'],
        [{ ...good, did: null }, 'did'],
        [{ ...good, controller: 'me' }, 'controller'],
        [{ ...good, class: 'twin' }, 'class'],
        [{ ...good, services: {} }, 'services'],
        [{ ...good, services: [null] }, 'services.0'],
        [{ ...good, services: [{ ...service, id: 'api' }] }, 'services.0.id'],
        [{ ...good, services: [{ ...service, endpoint: '/relative' }] }, 'services.0.endpoint'],
        [
          { ...good, services: [{ ...service, endpoint: 'javascript:alert(1)' }] },
          'services.0.endpoint',
        ],
        [{ ...good, services: [service, service] }, 'services'],
        [{ ...good, verifiableCredential: [{ type: 'x' }] }, 'verifiableCredential.0.issuer'],
        [
          { ...good, verifiableCredential: [{ type: 'x', issuer: 'me' }] },
          'verifiableCredential.0.issuer',
        ],
        [{ ...good, relationships: [{ role: 'x' }] }, 'relationships.0.target'],
        [{ ...good, relationships: [{ role: '', target: app.open }] }, 'relationships.0.role'],
        [{ ...good, groups: ['a'] }, 'groups'],
        [{ ...good, class: 'cognitive-twin', groups: [] }, 'groups'],
        [{ ...good, class: 'cognitive-twin', groups: ['a/b'] }, 'groups.0'],
      ]
      for (const [body, path] of wrong) {
        const answer = await app.post('/v1/entities', body)
        const paths = answer.body.details?.map((fault: { path: string }) => fault.path)
        expect([body, answer.status, paths]).toEqual([body, 400, expect.arrayContaining([path])])
      }
      const { body } = await app.post('/v1/entities', {})
      expect(body.details.map((fault: { path: string }) => fault.path).toSorted()).toEqual([
        'properties',
        'protocol',
        'type',
      ])
      expect((await app.get('/v1/entities?type=Refused&status=all')).body.items).toEqual([])
    })

    it('not from what JSON cannot mean: prototype keys, numbers too large, halves of characters', async () => {
      const raw = (properties: string) =>
        app.post(
          '/v1/entities',
          `{"type":"Raw","protocol":"${app.open}","properties":${properties}}`,
          {
            'content-type': 'application/json',
          },
        )
      for (const [properties, status, code] of [
        ['{"__proto__":{"polluted":true}}', 400, 'UNSAFE_KEY'],
        ['{"constructor":{"prototype":{}}}', 400, 'UNSAFE_KEY'],
        ['{"toString":"x"}', 400, 'INVALID_INPUT'],
        ['{"hasOwnProperty":1}', 400, 'INVALID_INPUT'],
        ['{"n":1e309}', 400, 'INVALID_INPUT'],
        ['{"n":NaN}', 400, 'INVALID_JSON'],
        ['{"n":"1"}', 400, 'INVALID_INPUT'],
        ['{"n":null}', 400, 'INVALID_INPUT'],
        ['{"n":[1]}', 400, 'INVALID_INPUT'],
        ['{"name":null}', 400, 'INVALID_INPUT'],
        ['{"name":["x"]}', 400, 'INVALID_INPUT'],
        ['{"name":{"toString":"x"}}', 400, 'INVALID_INPUT'],
        ['{"name":"\\ud800"}', 400, 'UNSAFE_TEXT'],
        ['{"name":"a\\u0000b"}', 400, 'UNSAFE_TEXT'],
        [`{"name":"${'x'.repeat(1024 * 1024)}"}`, 413, 'BODY_TOO_LARGE'],
        ['{"name":"x"', 400, 'INVALID_JSON'],
      ] as const)
        expect([properties.slice(0, 40), await raw(properties)]).toMatchObject([
          properties.slice(0, 40),
          { status, body: { code } },
        ])
      expect(({} as { polluted?: true }).polluted).toBeUndefined()
      expect((await app.get('/v1/entities?type=Raw&status=all')).body.items).toEqual([])
    })

    it('not after what is not there: an unknown protocol or target is 422', async () => {
      const good = { type: 'Dangling', protocol: app.open, properties: {} }
      const noProtocol = await app.post('/v1/entities', { ...good, protocol: 'did:no:protocol' })
      expect(noProtocol).toMatchObject({ status: 422, body: { details: [{ path: 'protocol' }] } })
      const noTarget = await app.post('/v1/entities', {
        ...good,
        relationships: [{ role: 'x', target: 'did:no:target' }],
      })
      expect(noTarget).toMatchObject({
        status: 422,
        body: { details: [{ path: 'relationships.0.target' }] },
      })
      expect((await app.get('/v1/entities?type=Dangling&status=all')).body.items).toEqual([])
    })

    it('by nobody without the key', async () => {
      expect((await app.app.get('/v1/entities')).status).toBe(401)
      expect((await app.app.post('/v1/entities', {})).status).toBe(401)
    })
  })

  describe('of an organisational domain', () => {
    it('come with their membership groups', async () => {
      const organisation = await app.entity({ type: 'OrganisationEntity', did: 'did:ixo:org:1' })
      expect(organisation).toMatchObject({
        class: 'cognitive-twin',
        relationships: [{ role: 'contains', target: 'did:ixo:org:1:group:members' }],
      })
      expect(await app.read('did:ixo:org:1:group:members')).toMatchObject({
        type: 'MembershipGroup',
        properties: { name: 'members' },
        controller: organisation.controller,
      })
      const own = await app.entity({ class: 'cognitive-twin', groups: ['a', 'b'] })
      expect(own.relationships).toEqual(
        ['a', 'b'].map((name) => ({ role: 'contains', target: `${own.did}:group:${name}` })),
      )
      const graph = (await app.get(app.at(own.did, '/graph'))).body
      expect(graph.nodes).toHaveLength(3)
      // An entity that a client has read can be sent to create a copy, without any change of form.
      const { relationships } = own
      const copy = { ...own, did: 'did:ixo:copy', protocol: app.open, groups: ['a', 'b'] }
      const targets = relationships.map(({ role, target }: { role: string; target: string }) => ({
        role,
        target: target.replace(own.did, copy.did),
      }))
      expect((await app.entity({ ...copy, relationships: targets })).relationships).toEqual(targets)
      const long = await app.post('/v1/entities', {
        type: 'OrganisationEntity',
        protocol: app.open,
        properties: {},
        did: `did:a:${'x'.repeat(1010)}`,
      })
      expect(long).toMatchObject({ status: 400, body: { details: [{ path: 'did' }] } })
    })

    it('keep one group at least, and take more', async () => {
      const { did } = await app.entity({ type: 'ProjectEntity', did: 'did:ixo:entity/project-1' })
      const group = (name: string) => `${did}:group:${name}`
      const last = await app.delete(app.at(group('members')), { 'if-match': '*' })
      expect(last).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining('last') },
      })
      const edge = await app.delete(
        app.at(did, `/relationships/contains/${encodeURIComponent(group('members'))}`),
      )
      expect(edge.status).toBe(409)

      const added = await app.post('/v1/entities', {
        type: 'MembershipGroup',
        did: group('admins'),
        properties: {},
      })
      expect(added).toMatchObject({ status: 201, body: { did: group('admins') } })
      expect((await app.read(did)).version).toBe(2)
      expect((await app.delete(app.at(group('members')), { 'if-match': '*' })).status).toBe(200)
      expect(await app.read(did)).toMatchObject({
        version: 3,
        relationships: [{ role: 'contains', target: group('admins') }],
      })
      expect((await app.delete(app.at(group('admins')), { 'if-match': '*' })).status).toBe(409)
    })

    it('keep their groups when their relationships are set anew', async () => {
      const { did } = await app.entity({ type: 'OrganisationEntity' })
      const other = await app.entity()
      const { body } = await app.patch(
        app.at(did),
        { relationships: [{ role: 'funds', target: other.did }] },
        { 'if-match': '"1"' },
      )
      expect(body.relationships).toEqual([
        { role: 'funds', target: other.did },
        { role: 'contains', target: `${did}:group:members` },
      ])
    })

    it('go with their groups or not at all', async () => {
      const { did } = await app.entity({ type: 'OrganisationEntity', groups: ['a', 'b'] })
      const refused = await app.delete(app.at(did), { 'if-match': '"1"' })
      expect(refused.status).toBe(409)
      expect(refused.body.details.dependents).toEqual([
        { did: `${did}:group:a`, type: 'MembershipGroup', role: 'contains' },
        { did: `${did}:group:b`, type: 'MembershipGroup', role: 'contains' },
      ])
      expect((await app.read(did)).version).toBe(1)
      const gone = await app.delete(`${app.at(did)}?cascade=groups`, { 'if-match': '"1"' })
      expect(gone).toMatchObject({ status: 200, body: { did, status: 'deactivated' } })
      for (const one of [did, `${did}:group:a`, `${did}:group:b`])
        expect((await app.get(app.at(one))).status).toBe(410)
      expect((await app.delete(`${app.at(did)}?cascade=all`, { 'if-match': '*' })).status).toBe(400)
    })

    it('count an entity once that depends on another by several edges', async () => {
      const target = await app.entity()
      const relationships = ['b', 'a'].map((role) => ({ role, target: target.did }))
      const source = await app.entity({ relationships })
      const { status, body } = await app.delete(app.at(target.did), { 'if-match': '"1"' })
      expect([status, body.message]).toEqual([
        409,
        `${target.did} cannot be deactivated while 1 entity depends on it: ${source.did}.`,
      ])
      expect(body.details.dependents).toHaveLength(2)
    })

    it('refuse groups that belong nowhere', async () => {
      const { did } = await app.entity()
      for (const [body, status] of [
        [{ did: 'did:a:b' }, 400],
        [{}, 400],
        [{ did: 'did:a:none:group:x' }, 422],
        [{ did: `${did}:group:x` }, 400],
      ] as const)
        expect([
          body,
          (await app.post('/v1/entities', { type: 'MembershipGroup', properties: {}, ...body }))
            .status,
        ]).toEqual([body, status])
    })
  })

  describe('are changed by merge patch', () => {
    it('in the version that was read: 428, 412, weak tags and lists as HTTP has them', async () => {
      const { did } = await app.entity({ properties: { name: 'a', n: 1 } })
      const patch = (body: object, tag?: string) =>
        app.patch(app.at(did), body, tag === undefined ? {} : { 'if-match': tag })
      expect((await patch({ properties: { n: 2 } })).body.code).toBe('PRECONDITION_REQUIRED')
      for (const tag of ['"2"', 'W/"1"', '1', '"1', 'W/*', '""', '"01"'])
        expect([tag, (await patch({ properties: { n: 2 } }, tag)).status]).toEqual([tag, 412])
      const changed = await patch({ properties: { n: 2 } }, '"7", "1"')
      expect(changed).toMatchObject({
        status: 200,
        body: { version: 2, properties: { name: 'a', n: 2 } },
      })
      expect(changed.headers.get('etag')).toBe('"2"')
      expect((await patch({ properties: { n: 3 } }, '"1"')).status).toBe(412)
      expect((await patch({ properties: { n: null } }, '*')).body.properties).toEqual({ name: 'a' })
      expect(await app.read(did)).toMatchObject({ version: 3, properties: { name: 'a' } })
    })

    it('part by part, with null to clear, and sent back whole', async () => {
      const target = await app.entity()
      const services = [{ id: '#a', type: 'x', endpoint: 'https://a.b/' }]
      const relationships = [{ role: 'x', target: target.did }]
      const made = await app.entity({ services, relationships, properties: { name: 'a' } })
      const same = await app.patch(app.at(made.did), made, { 'if-match': '"1"' })
      expect(same).toMatchObject({ status: 200 })
      expect(same.body).toEqual(made) // nothing changed, so there is no new version
      const cleared = await app.patch(
        app.at(made.did),
        { services: null, relationships: null, properties: null },
        { 'if-match': '"1"' },
      )
      expect(cleared.body).toMatchObject({
        services: [],
        relationships: [],
        properties: {},
        version: 2,
      })
      expect(await app.read(made.did)).toEqual(cleared.body)
      const merge = await app.patch(
        app.at(made.did),
        JSON.stringify({ properties: { name: 'b' } }),
        { 'if-match': '"2"', 'content-type': 'application/merge-patch+json' },
      )
      expect(merge.body.properties).toEqual({ name: 'b' })
    })

    it('but never in what they are: 400 with the path, and nothing changes', async () => {
      const made = await app.entity({ properties: { name: 'a' } })
      for (const [body, path] of [
        [{ type: 'Other' }, 'type'],
        [{ class: 'physical-twin' }, 'class'],
        [{ status: 'deactivated' }, 'status'],
        [{ version: 9 }, 'version'],
        [{ createdAt: null }, 'createdAt'],
        [{ controller: null }, 'controller'],
        [{ controller: 'me' }, 'controller'],
        [{ properties: [] }, 'properties'],
        [{ properties: 'x' }, 'properties'],
        [{ properties: { name: 5 } }, 'properties.name'],
        [{ properties: { nam: 'x' } }, 'properties.nam'],
        [{ services: [{}] }, 'services.0.id'],
        [{ protocol: null }, 'protocol'],
        [{ protocol: 'x' }, 'protocol'],
      ] as const) {
        const answer = await app.patch(app.at(made.did), body, { 'if-match': '"1"' })
        const paths = answer.body.details?.map((fault: { path: string }) => fault.path)
        expect([body, answer.status, paths]).toEqual([body, 400, expect.arrayContaining([path])])
      }
      for (const body of ['[]', 'null', '"x"', '5']) {
        const headers = { 'if-match': '"1"', 'content-type': 'application/json' }
        expect((await app.patch(app.at(made.did), body, headers)).status).toBe(400)
      }
      expect(await app.read(made.did)).toEqual(made)
    })

    it('nor in edges that lead nowhere or that the protocol does not have', async () => {
      const [thing, gone] = [await app.entity(), await app.entity()]
      await app.delete(app.at(gone.did), { 'if-match': '*' })
      const protocol = await app.protocol()
      const made = await app.entity({ protocol: protocol.did, properties: { name: 'x' } })
      const { did: organisation } = await app.entity({ type: 'OrganisationEntity' })
      for (const did of [made.did, `${organisation}:group:members`])
        for (const [role, target, status] of [
          ['operator', 'did:no:one', 422],
          ['operator', gone.did, 409],
          ...(did === made.did
            ? ([
                ['operater', thing.did, 400],
                ['operator', thing.did, 400],
              ] as const)
            : []),
        ] as const) {
          const body = { relationships: [{ role, target }] }
          const answer = await app.patch(app.at(did), body, { 'if-match': '"1"' })
          expect([did, role, target, answer.status]).toEqual([did, role, target, status])
          expect(JSON.stringify(answer.body.details)).toContain('relationships.0')
        }
    })

    it('one writer at a time: of 50 with the same version exactly one wins, round after round', async () => {
      const { did } = await app.entity({ properties: { n: 0 } })
      for (let round = 1; round <= 5; round++) {
        const answers = await Promise.all(
          Array.from({ length: 50 }, (_, writer) =>
            app.patch(
              app.at(did),
              { properties: { n: round * 100 + writer } },
              { 'if-match': `"${round}"` },
            ),
          ),
        )
        const winners = answers.filter(({ status }) => status === 200)
        expect(winners).toHaveLength(1)
        expect(answers.filter(({ status }) => status === 412)).toHaveLength(49)
        const now = await app.read(did)
        expect(now).toEqual(winners[0]!.body)
        expect(now.version).toBe(round + 1)
      }
    })

    it('one creator at a time: of 50 with the same id exactly one wins', async () => {
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          app.post('/v1/entities', {
            type: 'Thing',
            protocol: app.open,
            properties: { n },
            did: 'did:ixo:raced',
          }),
        ),
      )
      const counts = Map.groupBy(answers, ({ status }) => status)
      expect([counts.get(201)?.length, counts.get(409)?.length]).toEqual([1, 49])
      expect(await app.read('did:ixo:raced')).toEqual(counts.get(201)![0]!.body)
    })
  })

  describe('are deactivated', () => {
    it('in the version that was read, and leave a tombstone and their history', async () => {
      const { did } = await app.entity()
      expect((await app.delete(app.at(did))).status).toBe(428)
      expect((await app.delete(app.at(did), { 'if-match': 'W/"1"' })).status).toBe(412)
      expect((await app.delete(app.at(did), { 'if-match': '"1"' })).status).toBe(200)
      const gone = await app.get(app.at(did))
      expect(gone).toMatchObject({
        status: 410,
        body: { code: 'GONE', details: { did, status: 'deactivated', version: 2 } },
      })
      expect((await app.patch(app.at(did), {}, { 'if-match': '*' })).status).toBe(410)
      expect((await app.delete(app.at(did), { 'if-match': '*' })).status).toBe(410)
      const again = await app.post('/v1/entities', {
        type: 'T',
        protocol: app.open,
        properties: {},
        did,
      })
      expect(again.status).toBe(409)
      const { items } = (await app.get(app.at(did, '/history'))).body
      expect(items.map((item: { status: string }) => item.status)).toEqual([
        'active',
        'deactivated',
      ])
      expect((await app.delete(app.at('did:no:entity'), { 'if-match': '*' })).status).toBe(404)
    })

    it('not while others depend on them: by an edge, or as their controller', async () => {
      const target = await app.entity()
      const source = await app.entity({ relationships: [{ role: 'uses', target: target.did }] })
      const controlled = await app.entity({ controller: target.did })
      const refused = await app.delete(app.at(target.did), { 'if-match': '"1"' })
      expect(refused).toMatchObject({ status: 409, body: { code: 'CONFLICT' } })
      expect(refused.body.details.dependents).toEqual([
        { did: source.did, type: 'Thing', role: 'uses' },
        { did: controlled.did, type: 'Thing', role: 'controller' },
      ])
      expect((await app.read(target.did)).version).toBe(1)
      await app.delete(app.at(source.did), { 'if-match': '"1"' })
      await app.delete(app.at(controlled.did), { 'if-match': '"1"' })
      expect((await app.delete(app.at(target.did), { 'if-match': '"1"' })).status).toBe(200)
    })

    it('and an edge never leads to one, however the two race', async () => {
      for (let round = 0; round < 10; round++) {
        const [source, target] = [await app.entity(), await app.entity()]
        const [related, removed] = await Promise.all([
          app.put(app.at(source.did, `/relationships/uses/${encodeURIComponent(target.did)}`), {}),
          app.delete(app.at(target.did), { 'if-match': '*' }),
        ])
        expect([
          [201, 409],
          [409, 200],
        ]).toContainEqual([related.status, removed.status])
      }
    })
  })

  describe('are related', () => {
    const edge = (from: string, role: string, to: string) =>
      app.at(from, `/relationships/${encodeURIComponent(role)}/${encodeURIComponent(to)}`)

    it('by an edge with properties, which is put, changed and removed', async () => {
      const [a, b] = [await app.entity(), await app.entity({ did: 'did:ixo:entity/b-1' })]
      const made = await app.put(edge(a.did, 'is near/to', b.did), { properties: { metres: 5 } })
      expect(made).toMatchObject({
        status: 201,
        body: {
          from: a.did,
          role: 'is near/to',
          target: b.did,
          properties: { metres: 5 },
          version: 2,
        },
      })
      expect(made.headers.get('etag')).toBe('"2"')
      const same = await app.put(edge(a.did, 'is near/to', b.did), { properties: { metres: 5 } })
      expect(same).toMatchObject({ status: 200, body: { version: 2 } })
      const other = await app.put(edge(a.did, 'is near/to', b.did), { properties: { metres: 6 } })
      expect(other).toMatchObject({ status: 200, body: { version: 3 } })
      expect((await app.put(edge(a.did, 'sees', b.did), undefined)).status).toBe(201)
      expect((await app.read(a.did)).relationships).toEqual([
        { role: 'is near/to', target: b.did, properties: { metres: 6 } },
        { role: 'sees', target: b.did },
      ])
      expect((await app.delete(edge(a.did, 'sees', b.did))).status).toBe(200)
      expect((await app.delete(edge(a.did, 'sees', b.did))).status).toBe(404)
      expect(await app.read(a.did)).toMatchObject({
        version: 5,
        relationships: [{ role: 'is near/to' }],
      })
    })

    it('only to what is there, in a role and of a kind that the protocol has', async () => {
      const protocol = await app.protocol()
      const made = await app.entity({ protocol: protocol.did, properties: { name: 'x' } })
      const [thing, organisation] = [
        await app.entity(),
        await app.entity({ type: 'OrganisationEntity' }),
      ]
      const oracle = await app.entity({ type: 'Verifier', class: 'oracle-twin' })
      const put = async (role: string, target: string, headers = {}) => {
        const { status, body } = await app.put(edge(made.did, role, target), {}, headers)
        return [status, body.message ?? '']
      }
      expect(await put('operator', organisation.did)).toEqual([201, ''])
      expect(await put('verifier', oracle.did)).toEqual([201, ''])
      expect(await put('operater', organisation.did)).toEqual([
        400,
        expect.stringContaining('did you mean "operator"?'),
      ])
      expect(await put('operator', thing.did)).toEqual([
        400,
        expect.stringContaining('for OrganisationEntity'),
      ])
      expect((await put('operator', 'did:no:one'))[0]).toBe(404)
      expect((await app.put(edge('did:no:one', 'x', thing.did), {})).status).toBe(404)
      expect((await put('operator', organisation.did, { 'if-match': '"1"' }))[0]).toBe(412)
      for (const role of ['toString', 'hasOwnProperty'])
        expect((await put(role, organisation.did))[0]).toBe(400)
      expect((await app.read(made.did)).version).toBe(3)
      const bad = await app.put(edge(made.did, 'operator', organisation.did), { properties: [] })
      expect(bad.status).toBe(400)
    })
  })

  it('have a history: every version with what changed, page by page', async () => {
    const target = await app.entity()
    const { did } = await app.entity({
      properties: { n: 1 },
      relationships: [{ role: 'a', target: target.did }],
    })
    await app.patch(app.at(did), { properties: { n: 2 } }, { 'if-match': '*' })
    await app.put(app.at(did, `/relationships/b/${encodeURIComponent(target.did)}`), {})
    await app.delete(app.at(did, `/relationships/a/${encodeURIComponent(target.did)}`))
    await app.patch(app.at(did), { properties: { n: 3 } }, { 'if-match': '*' })
    const { items } = (await app.get(app.at(did, '/history'))).body
    const shape = items.map((item: any) => [item.version, item.properties.n, item.change.action]) // any: the test reads members
    expect(shape).toEqual([
      [1, 1, 'created'],
      [2, 2, 'updated'],
      [3, 2, 'related'],
      [4, 2, 'unrelated'],
      [5, 3, 'updated'],
    ])
    expect(items[0].change.relationships).toEqual([{ role: 'a', target: target.did }])
    expect(items[2].change).toMatchObject({
      by: 'key:default',
      relationship: { role: 'b', target: target.did },
    })
    const paged = []
    let query = '?limit=2'
    for (;;) {
      const { body } = await app.get(app.at(did, `/history${query}`))
      paged.push(...body.items)
      if (!body.nextCursor) break
      query = `?limit=2&cursor=${body.nextCursor}`
    }
    expect(paged).toEqual(items)
    expect((await app.get(app.at('did:no:one', '/history'))).status).toBe(404)
  })
})
