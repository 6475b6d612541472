import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('the registry takes a request at its word', (where) => {
  const app = registryApp(where)

  it('refuses query parameters that it does not know, and says which one was meant', async () => {
    const { did } = await app.entity()
    const meant = [
      ['/v1/entities?typ=Stove', 'typ', 'type'],
      ['/v1/entities?controler=did:ixo:a', 'controler', 'controller'],
      ['/v1/entities?propertie.fuel=gas', 'propertie.fuel', undefined],
      ['/v1/protocols?limt=3', 'limt', 'limit'],
      ['/v1/claims?subjct=x', 'subjct', 'subject'],
      ['/v1/credentials?oracl=x', 'oracl', 'oracle'],
      ['/v1/events?afte=0', 'afte', 'after'],
      [app.at(did, '/graph?dept=2'), 'dept', 'depth'],
      [app.at(did, '/history?limits=2'), 'limits', 'limit'],
      [app.at(did, '?version=2'), 'version', undefined],
    ] as const
    for (const [path, name, word] of meant) {
      const { status, body } = await app.get(path)
      expect([path, status, body.code]).toEqual([path, 400, 'INVALID_INPUT'])
      expect(body.details).toEqual([{ path: name, message: expect.stringContaining(`"${name}"`) }])
      if (word) expect(body.details[0].message).toContain(`did you mean "${word}"?`)
    }
    expect((await app.delete(app.at(did, '?cascde=groups'), { 'if-match': '*' })).status).toBe(400)
    expect((await app.read(did)).status).toBe('active')
  })

  it('makes no version of a patch that changes nothing', async () => {
    const { did: target } = await app.entity()
    const made = await app.entity({
      properties: { name: 'Amina', n: 3 },
      relationships: [{ role: 'x', target }],
      services: [{ id: '#a', type: 'A', endpoint: 'https://a.example/' }],
    })
    for (const patch of [
      {},
      { properties: {} },
      { properties: { n: 3, name: 'Amina' } },
      { relationships: made.relationships },
      { services: made.services, properties: { missing: null } },
      made,
    ]) {
      const same = await app.patch(app.at(made.did), patch, { 'if-match': '"1"' })
      expect([patch, same.status, same.headers.get('etag')]).toEqual([patch, 200, '"1"'])
      expect(same.body).toEqual(made)
    }
    expect((await app.get(app.at(made.did, '/history'))).body.items).toHaveLength(1)
    const changed = await app.patch(
      app.at(made.did),
      { properties: { n: 4 } },
      { 'if-match': '"1"' },
    )
    expect(changed.body).toMatchObject({ version: 2, properties: { name: 'Amina', n: 4 } })
    const emptied = await app.patch(app.at(made.did), { relationships: [] }, { 'if-match': '"2"' })
    expect(emptied.body).toMatchObject({ version: 3, relationships: [] })
  })

  it('refuses numbers that would lose digits, and keeps those that do not', async () => {
    const send = (n: string) =>
      fetch(`${app.url}/v1/entities`, {
        method: 'POST',
        headers: {
          authorization: 'Bearer a-key-for-this-test',
          'content-type': 'application/json',
        },
        body: `{"type":"Thing","protocol":"${app.open}","properties":{"n":${n}}}`,
      })
    for (const n of [
      '9007199254740993',
      '0.12345678901234567891',
      '1e-400',
      '-123456789012345678',
    ]) {
      const answer = await send(n)
      const body = (await answer.json()) as any // any: the test reads members of the answer
      expect([n, answer.status, body.code]).toEqual([n, 400, 'INVALID_INPUT'])
      expect(body.details[0]).toMatchObject({ path: 'n', message: expect.stringContaining(n) })
    }
    for (const n of [
      '0.1',
      '0.30000000000000004',
      '1e21',
      '100000000000000000000',
      '1.50000000000000000000',
    ])
      expect([n, (await send(n)).status]).toEqual([n, 201])
    const { did } = await app.entity()
    const patch = await fetch(app.url + app.at(did), {
      method: 'PATCH',
      headers: {
        authorization: 'Bearer a-key-for-this-test',
        'content-type': 'application/json',
        'if-match': '*',
      },
      body: '{"properties":{"n":9007199254740993}}',
    })
    expect(patch.status).toBe(400)
    const { results } = await app.batch([
      `{"type":"Thing","protocol":"${app.open}","properties":{"n":12345678901234567890}}`,
      `{"type":"Thing","protocol":"${app.open}","properties":{"n":1e21}}`,
      `{"type":"Thing","protocol":"${app.open}","properties":{"n":0.12345678901234567891}}`,
      `{"type":"Thing","protocol":"${app.open}","properties":{"n":1.50000000000000000000}}`,
    ])
    expect(results.map(({ status }) => status)).toEqual([400, 201, 400, 201])
    expect(results[2].error.message).toContain('0.12345678901234567891')
  })

  it('answers numbers that no column holds as it answers others that are not there', async () => {
    const { did } = await app.entity({ properties: { n: 0 } })
    await app.entity({ properties: { n: 3e20 } })
    const found = async (n: string) => {
      const { status, body } = await app.get(`/v1/entities?property.n=${encodeURIComponent(n)}`)
      return [n, status, body.items?.map(({ properties }: any) => properties.n)] // any: members of the answer
    }
    for (const n of ['1e400', '1e200000', '-1e999999999', '3'])
      expect(await found(n)).toEqual([n, 200, []])
    for (const [n, value] of [
      ['0', 0],
      ['1e-200000', 0],
      ['300000000000000000000', 3e20],
      ['3e20', 3e20],
    ] as const)
      expect(await found(n)).toEqual([n, 200, [value]])
    const cursor = Buffer.from('after:999999999999999').toString('base64url')
    const history = await app.get(app.at(did, `/history?cursor=${cursor}`))
    expect([history.status, history.body]).toEqual([200, { items: [] }])
    for (const version of ['9999999999', '9007199254740991', '1.5', '0', 'abc', '']) {
      const { status, body } = await app.get(`/v1/protocols/${app.open}?version=${version}`)
      expect([version, status, body.details?.[0].message]).toEqual([
        version,
        400,
        `give the number of a version, not ${/^\d/.test(version) ? version : `"${version}"`}`,
      ])
    }
    expect((await app.get(`/v1/protocols/${app.open}?version=2147483647`)).status).toBe(404)
  })

  it('takes no empty text and no word for a number, and quotes what it was given', async () => {
    const { did } = await app.entity()
    for (const [path, name, given] of [
      [app.at(did, '/graph?depth='), 'depth', '""'],
      [app.at(did, '/graph?depth=abc'), 'depth', '"abc"'],
      [app.at(did, '/graph?depth=1&depth=2'), 'depth', '["1","2"]'],
      [app.at(did, '/graph?depth=1.5'), 'depth', '1.5'],
      ['/v1/entities?limit=', 'limit', '""'],
      ['/v1/claims?limit=ten', 'limit', '"ten"'],
      [app.at(did, '/system?limit=%20'), 'limit', '" "'],
    ] as const) {
      const { status, body } = await app.get(path)
      expect([path, status, body.details]).toEqual([
        path,
        400,
        [{ path: name, message: expect.stringMatching(/^give a whole number of .*, not /) }],
      ])
      expect(body.details[0].message).toContain(`, not ${given}`)
    }
    for (const limit of [true, [5], null]) {
      const { status, body } = await app.post('/v1/query', { limit })
      expect([limit, status, body.details]).toEqual([
        limit,
        400,
        [
          {
            path: 'limit',
            message: `give a whole number of 1 to 1000, not ${JSON.stringify(limit)}`,
          },
        ],
      ])
    }
    const deep = await app.get(app.at(did, '/graph?depth=2'))
    expect([deep.status, deep.body.nodes]).toEqual([200, [{ did, type: 'Thing', depth: 0 }]])
  })

  it('refuses a body that names another thing than the path', async () => {
    const { did } = await app.entity()
    const other = await app.entity()
    const tag = { 'if-match': '"1"' }
    const patch = { did: other.did, properties: { name: 'Amina' } }
    const refused = await app.patch(app.at(did), patch, tag)
    expect([refused.status, refused.body.details]).toEqual([
      400,
      [{ path: 'did', message: `it stays ${JSON.stringify(did)}; leave it out` }],
    ])
    expect((await app.read(did)).version).toBe(1)
    expect((await app.patch(app.at(did), { ...patch, did: null }, tag)).status).toBe(400)
    expect((await app.patch(app.at(did), { ...patch, did }, tag)).status).toBe(200)

    const edge = app.at(did, `/relationships/knows/${other.did}`)
    for (const [member, value] of [
      ['did', other.did],
      ['role', 'owns'],
      ['target', did],
    ] as const) {
      const answer = await app.put(edge, { [member]: value, properties: { since: 2020 } })
      expect([member, answer.status, answer.body.details?.[0].path]).toEqual([member, 400, member])
    }
    expect((await app.put(edge, { role: 'knows', target: other.did })).status).toBe(201)

    const protocol = await app.protocol()
    const { did: id, type, properties } = protocol
    const another = await app.put(`/v1/protocols/${id}`, { did: app.open, type, properties })
    expect([another.status, another.body.details?.[0].path]).toEqual([400, 'did'])
    expect((await app.put(`/v1/protocols/${id}`, { did: id, type, properties })).status).toBe(200)
  })
})
