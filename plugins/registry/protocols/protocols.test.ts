import { describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp, stove } from '../../../test/support/registry.ts'

await onEachDatabase('protocols', (where) => {
  const app = registryApp(where)
  const at = (did: string, rest = '') => `/v1/protocols/${encodeURIComponent(did)}${rest}`
  /** Creates an entity with some properties; resolves to the faults by their paths, or to `ok`. */
  async function tried(protocol: string, properties: unknown) {
    const { status, body } = await app.post('/v1/entities', { type: 'Tried', protocol, properties })
    if (status === 201) return 'ok'
    expect(status).toBe(400)
    return Object.fromEntries(
      body.details.map(({ path, message }: { path: string; message: string }) => [path, message]),
    )
  }

  it('are created, read, listed and removed', async () => {
    const made = await app.protocol({ ...stove, name: 'Stoves', did: 'did:ixo:protocol/stove-1' })
    expect(made).toMatchObject({
      did: 'did:ixo:protocol/stove-1',
      type: 'Protocol',
      name: 'Stoves',
      version: 1,
      properties: stove.properties,
      relationships: stove.relationships,
      effective: { properties: { burners: { type: 'integer' } } },
      controller: app.oracleDid,
    })
    const read = await app.get(at(made.did))
    expect(read.body).toEqual(made)
    expect(read.headers.get('etag')).toBe('"1"')
    const { items } = (await app.get('/v1/protocols')).body
    expect(items).toContainEqual(made)
    expect((await app.delete(at(made.did), { 'if-match': '"9"' })).status).toBe(412)
    expect(await app.delete(at(made.did))).toMatchObject({
      status: 200,
      body: { status: 'deactivated' },
    })
    expect((await app.get(at(made.did))).status).toBe(410)
    expect((await app.get(at('did:no:protocol'))).status).toBe(404)
    expect((await app.put(at('did:no:protocol'), stove)).status).toBe(404)
    const minted = await app.protocol({ type: 'Protocol' })
    expect(minted.did).toMatch(/^did:ixo:protocol:[0-9a-f]{32}$/)
  })

  describe('check properties', () => {
    it('of every type, against what only looks like it', async () => {
      const good: Record<string, unknown[]> = {
        string: ['', 'x', '😀', '5', 'null'],
        number: [0, -1.5, 1e308, 5e-324],
        integer: [0, -3, 9007199254740991, 5.0],
        boolean: [true, false],
        object: [{}, { a: { b: [1] } }],
        array: [[], [1, 'x', null]],
        'date-time': [
          '2026-03-01T12:00:00Z',
          '2024-02-29T23:59:60.123+05:30',
          '2026-12-31t00:00:00z',
        ],
        did: ['did:ixo:a', 'did:ixo:entity/device-1'],
      }
      const bad: Record<string, unknown[]> = {
        string: [5, true, null, [], ['x'], {}],
        number: ['5', true, null, [], [5], {}],
        integer: [1.5, '1', null, [1], 9007199254740992, 1e300],
        boolean: ['true', 0, 1, null, []],
        object: [null, [], 'x', 5, true],
        array: [null, {}, 'x', 5, { length: 0 }],
        'date-time': [
          '2026-03-01',
          '2026-02-29T00:00:00Z',
          '2026-13-01T00:00:00Z',
          '2026-00-10T00:00:00Z',
          '2026-03-01T24:00:00Z',
          '2026-03-01T12:00:00',
          '2026-03-01 12:00:00Z',
          ' 2026-03-01T12:00:00Z',
          '2026-03-01T12:00:00Z\n',
          'now',
          '',
          0,
          null,
          ['2026-03-01T12:00:00Z'],
        ],
        did: ['did:x', 'x', 'did:a:b#c', 'did:a:b?c', '', null, 5, ['did:a:b'], { did: 'did:a:b' }],
      }
      const names = Object.keys(good)
      const { did } = await app.protocol({
        type: 'Protocol',
        properties: Object.fromEntries(names.map((name) => [name, name])),
      })
      for (const name of names) {
        for (const value of good[name]!)
          expect([name, value, await tried(did, { [name]: value })]).toEqual([name, value, 'ok'])
        for (const value of bad[name]!)
          expect([name, value, await tried(did, { [name]: value })]).toEqual([
            name,
            value,
            { [`properties.${name}`]: expect.stringContaining('give') },
          ])
      }
    })

    it('by required, enum, bounds and the items of lists, naming every fault', async () => {
      const { did } = await app.protocol({
        type: 'Protocol',
        properties: {
          name: { type: 'string', required: true, min: 2, max: 4 },
          fuel: { type: 'string', enum: ['ethanol', 'pellets'] },
          power: { type: 'number', min: 0, max: 10 },
          size: { type: 'integer', enum: [1, 2] },
          tags: { type: 'array', items: 'string', max: 2 },
          rows: { type: 'array', items: { type: 'array', items: { type: 'integer', min: 1 } } },
        },
      })
      expect(
        await tried(did, {
          name: '😀😀',
          fuel: 'pellets',
          power: 10,
          size: 2,
          tags: ['a'],
          rows: [[1], []],
        }),
      ).toBe('ok')
      expect(await tried(did, {})).toEqual({ 'properties.name': 'missing; give a string' })
      expect(
        await tried(did, {
          name: 'x',
          fuel: 'Ethanol',
          power: 10.1,
          size: 3,
          tags: ['a', 5],
          rows: [[1], [0, 'x'], null],
        }),
      ).toEqual({
        'properties.name': 'give a length of 2 to 4, not 1',
        'properties.fuel': 'give one of "ethanol", "pellets", not "Ethanol"',
        'properties.power': 'give a number of 0 to 10, not 10.1',
        'properties.size': 'give one of 1, 2, not 3',
        'properties.tags.1': 'give a string, not 5',
        'properties.rows.1.0': 'give a number of at least 1, not 0',
        'properties.rows.1.1': 'give a whole number, not "x"',
        'properties.rows.2': 'give a list, not null',
      })
      expect(await tried(did, { name: 'ab', tags: ['a', 'b', 'c'] })).toEqual({
        'properties.tags': 'give a number of items of at most 2, not 3',
      })
    })

    it('refuse what they do not name, and say what was meant', async () => {
      const { did } = await app.protocol()
      expect(await tried(did, { name: 'x', feul: 'ethanol', colour: 'red' })).toEqual({
        'properties.feul': 'the protocol has no property "feul"; did you mean "fuel"?',
        'properties.colour': expect.stringContaining('it has name, fuel, power, burners'),
      })
      for (const name of ['toString', 'valueOf', 'hasOwnProperty', 'prototype'])
        expect(await tried(did, { name: 'x', [name]: 'y' })).toEqual({
          [`properties.${name}`]: expect.stringContaining(`no property "${name}"`),
        })
      // A protocol may define a property with such a name, which is then checked like any other property.
      const own = await app.protocol({ type: 'Protocol', properties: { toString: 'string' } })
      expect(await tried(own.did, { toString: 'x' })).toBe('ok')
      expect(await tried(own.did, { toString: 5 })).toHaveProperty(['properties.toString'])
      const required = await app.protocol({
        type: 'Protocol',
        properties: { valueOf: { type: 'string', required: true } },
      })
      expect(await tried(required.did, {})).toHaveProperty(['properties.valueOf'])
    })
  })

  it('are checked themselves, with suggestions', async () => {
    const wrong: [object, string, string][] = [
      [{ type: 'protocol' }, 'type', '"Protocol"'],
      [{ properties: [] }, 'properties', 'an object'],
      [{ properties: { a: 'strng' } }, 'properties.a', 'did you mean "string"?'],
      [{ properties: { a: 'datetime' } }, 'properties.a', 'did you mean "date-time"?'],
      [{ properties: { a: null } }, 'properties.a', 'not null'],
      [{ properties: { a: ['string'] } }, 'properties.a', 'give the name of a type'],
      [{ properties: { a: {} } }, 'properties.a.type', 'missing'],
      [
        { properties: { a: { type: 'string', requird: true } } },
        'properties.a.requird',
        'did you mean "required"?',
      ],
      [
        { properties: { a: { type: 'string', required: 'yes' } } },
        'properties.a.required',
        'true or false',
      ],
      [
        { properties: { a: { type: 'boolean', min: 1 } } },
        'properties.a.min',
        'a boolean has no min',
      ],
      [
        { properties: { a: { type: 'number', min: 2, max: 1 } } },
        'properties.a.min',
        'more than the max',
      ],
      [{ properties: { a: { type: 'number', min: '2' } } }, 'properties.a.min', 'give a number'],
      [
        { properties: { a: { type: 'string', items: 'string' } } },
        'properties.a.items',
        'only an array',
      ],
      [{ properties: { a: { type: 'array', items: 'x' } } }, 'properties.a.items', 'no type "x"'],
      [
        { properties: { a: { type: 'number', enum: [1, '2'] } } },
        'properties.a.enum.1',
        'a number',
      ],
      [{ properties: { a: { type: 'string', enum: [] } } }, 'properties.a.enum', 'a list'],
      [{ properties: { '': 'string' } }, 'properties.', '1 to 100 characters'],
      [{ properties: { prototype: 'string' } }, 'properties.prototype', 'cannot be a name'],
      [{ relationships: { verifier: 5 } }, 'relationships.verifier', 'kind'],
      [{ relationships: [] }, 'relationships', 'an object'],
      [{ extends: 'x' }, 'extends', 'the DID'],
    ]
    for (const [body, path, message] of wrong) {
      const answer = await app.post('/v1/protocols', { type: 'Protocol', ...body })
      expect([body, answer.status, answer.body.details]).toEqual([
        body,
        400,
        expect.arrayContaining([{ path, message: expect.stringContaining(message) }]),
      ])
    }
    const orphan = await app.post('/v1/protocols', { type: 'Protocol', extends: 'did:no:one' })
    expect(orphan).toMatchObject({ status: 422, body: { details: [{ path: 'extends' }] } })
  })

  describe('extend each other', () => {
    it('local values win, and what changes above reaches below', async () => {
      const base = await app.protocol({
        type: 'Protocol',
        properties: { a: { type: 'string', required: true }, b: 'number' },
        relationships: { x: 'Thing' },
      })
      const middle = await app.protocol({
        type: 'Protocol',
        extends: base.did,
        properties: { b: 'string', c: 'boolean' },
        relationships: { y: 'Thing' },
      })
      const leaf = await app.protocol({
        type: 'Protocol',
        extends: middle.did,
        properties: { a: 'string' },
      })
      expect(leaf.effective).toEqual({
        properties: {
          a: { type: 'string' },
          b: { type: 'string' },
          c: { type: 'boolean' },
        },
        relationships: { x: 'Thing', y: 'Thing' },
      })
      expect(await tried(leaf.did, { b: 'text' })).toBe('ok')
      expect(await tried(middle.did, { b: 'text' })).toHaveProperty(['properties.a'])
      expect(await tried(base.did, { a: 'x', c: true })).toHaveProperty(['properties.c'])

      const entity = await app.entity({ protocol: leaf.did, properties: { b: 'text' } })
      const changed = await app.put(at(base.did), {
        type: 'Protocol',
        properties: { a: 'string', d: { type: 'integer', required: true } },
      })
      expect(changed.body).toMatchObject({ did: base.did, version: 2, nonConformingTotal: 2 })
      expect(changed.body.nonConforming).toContainEqual({
        did: entity.did,
        protocol: { did: leaf.did, version: 1 },
        faults: [{ path: 'properties.d', message: 'missing; give a whole number' }],
      })
      expect((await app.get(at(leaf.did))).body).toMatchObject({
        version: 2,
        effective: { properties: { d: { type: 'integer', required: true } } },
      })
      expect((await app.get(at(leaf.did, '?version=1'))).body.effective).toEqual(leaf.effective)
      expect((await app.get(at(leaf.did, '?version=3'))).status).toBe(404)
    })

    it('but never in a circle, and not without what they extend', async () => {
      const a = await app.protocol({ type: 'Protocol' })
      const b = await app.protocol({ type: 'Protocol', extends: a.did })
      const c = await app.protocol({ type: 'Protocol', extends: b.did })
      for (const parent of [a, b, c]) {
        const { status, body } = await app.put(at(a.did), { type: 'Protocol', extends: parent.did })
        expect([status, body.details?.[0]?.path]).toEqual([400, 'extends'])
      }
      const refused = await app.delete(at(a.did))
      expect(refused).toMatchObject({
        status: 409,
        body: { details: { dependents: [{ did: b.did, role: 'extends' }] } },
      })
      await app.put(at(b.did), { type: 'Protocol' })
      expect((await app.delete(at(a.did))).status).toBe(200)
    })
  })

  it('that change list the entities that no longer conform, and break none of them', async () => {
    const protocol = await app.protocol({
      type: 'Protocol',
      properties: { name: 'string', power: 'number' },
      relationships: { near: 'Thing', sees: 'Thing' },
    })
    const thing = await app.entity()
    const make = (properties: object, relationships: object[] = []) =>
      app.entity({ protocol: protocol.did, properties, relationships })
    const fine = await make({ name: 'fine' })
    const strong = await make({ power: 11 })
    const seeing = await make({ name: 'seeing' }, [{ role: 'sees', target: thing.did }])

    const changed = await app.put(
      at(protocol.did),
      {
        type: 'Protocol',
        properties: {
          name: { type: 'string', required: true },
          power: { type: 'number', max: 10 },
        },
        relationships: { near: 'Thing' },
      },
      { 'if-match': '"1"' },
    )
    expect(changed).toMatchObject({ status: 200, body: { version: 2, nonConformingTotal: 2 } })
    expect(
      changed.body.nonConforming.map(
        ({ did, faults }: { did: string; faults: { path: string }[] }) => [
          did,
          faults.map(({ path }) => path),
        ],
      ),
    ).toEqual([
      [strong.did, ['properties.name', 'properties.power']],
      [seeing.did, ['relationships.0.role']],
    ])
    for (const one of [fine, strong, seeing]) expect(await app.read(one.did)).toEqual(one)

    // An entity that conforms only to its old version can still change; one that conforms to the newest moves to it.
    const patch = async (did: string, properties: object) =>
      app.patch(app.at(did), { properties }, { 'if-match': '*' })
    expect((await patch(strong.did, { power: 12 })).body.protocol.version).toBe(1)
    expect((await patch(strong.did, { power: 'x' })).status).toBe(400)
    expect((await patch(strong.did, { name: 's', power: 9 })).body.protocol.version).toBe(2)
    expect((await patch(strong.did, { power: 12 })).status).toBe(400)
    expect((await patch(fine.did, { name: 'finer' })).body.protocol.version).toBe(2)
    expect((await patch(seeing.did, { name: 's' })).body.protocol.version).toBe(1)
    expect(await tried(protocol.did, {})).toHaveProperty(['properties.name'])

    expect(
      (await app.put(at(protocol.did), { type: 'Protocol' }, { 'if-match': '"1"' })).status,
    ).toBe(412)
    const refused = await app.delete(at(protocol.did))
    expect(refused.status).toBe(409)
    expect(refused.body.details.dependents).toHaveLength(3)
  })

  it('can be exchanged for another, if the entity conforms to it', async () => {
    const other = await app.protocol({ type: 'Protocol', properties: { name: 'string' } })
    const { did } = await app.entity({ properties: { name: 'a', n: 1 } })
    const to = (properties: object) =>
      app.patch(app.at(did), { protocol: other.did, properties }, { 'if-match': '*' })
    expect((await to({})).body.details).toMatchObject([{ path: 'properties.n' }])
    expect((await to({ n: null })).body.protocol).toEqual({ did: other.did, version: 1 })
  })
})
