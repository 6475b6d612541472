import { request as httpRequest } from 'node:http'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { asKey, registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('batches', (where) => {
  const app = registryApp(where)
  const thing = (body: object = {}) => ({
    type: 'Batched',
    protocol: app.open,
    properties: {},
    ...body,
  })
  const count = async (type = 'Batched') => {
    let found = 0
    let cursor = ''
    do {
      const { body } = await app.get(`/v1/entities?type=${type}&status=all&limit=500${cursor}`)
      found += body.items.length
      cursor = body.nextCursor ? `&cursor=${body.nextCursor}` : ''
    } while (cursor)
    return found
  }

  it('create what is good and say of every line what became of it', async () => {
    const before = await count()
    const { status, headers, results } = await app.batch([
      thing({ did: 'did:batch:1' }),
      '{"type":',
      thing({ properties: { nam: 'x' } }),
      '',
      thing({ did: 'did:batch:1' }),
      thing({ did: 'did:batch:2', relationships: [{ role: 'x', target: 'did:batch:1' }] }),
      thing({ relationships: [{ role: 'x', target: 'did:batch:later' }] }),
      thing({ protocol: 'did:no:protocol' }),
      '5',
      '{"type":"Batched","protocol":"x","properties":{"__proto__":1}}',
      thing({ type: 'OrganisationEntity', did: 'did:batch:org' }),
      { type: 'MembershipGroup', did: 'did:batch:org:group:x', properties: {} },
      'x'.repeat(1024 * 1024 + 1),
    ])
    expect(status).toBe(200)
    expect(headers.get('content-type')).toContain('application/x-ndjson')
    expect(results.map(({ line, status, did }) => [line, status, did])).toEqual([
      [1, 201, 'did:batch:1'],
      [2, 400, undefined],
      [3, 400, undefined],
      [5, 409, undefined],
      [6, 201, 'did:batch:2'],
      [7, 422, undefined],
      [8, 422, undefined],
      [9, 400, undefined],
      [10, 400, undefined],
      [11, 201, 'did:batch:org'],
      [12, 400, undefined],
      [13, 400, undefined],
    ])
    expect(results[2].error).toMatchObject({
      code: 'INVALID_INPUT',
      details: [
        { path: 'properties.nam', message: expect.stringContaining('did you mean "name"?') },
      ],
    })
    expect(await count()).toBe(before + 2)
    expect((await app.read('did:batch:2')).relationships).toEqual([
      { role: 'x', target: 'did:batch:1' },
    ])
    expect((await app.read('did:batch:org:group:members')).type).toBe('MembershipGroup')
  })

  it('report progress on the way', async () => {
    const lines = Array.from({ length: 2500 }, (_, n) =>
      n % 100 === 50 ? thing({ type: '' }) : thing({ type: 'Many', did: `did:many:${n}` }),
    )
    const { results } = await app.batch(lines)
    expect(results.filter(({ progress }) => progress)).toEqual([
      { progress: { lines: 1000, created: 990, failed: 10 } },
      { progress: { lines: 2000, created: 1980, failed: 20 } },
    ])
    expect(results.filter(({ line }) => line).map(({ line }) => line)).toEqual(
      lines.map((_, n) => n + 1),
    )
    expect(await count('Many')).toBe(2475)
    const again = await app.batch(lines.slice(0, 50))
    expect(again.results.every(({ status }) => status === 409)).toBe(true)
  })

  describe('that are atomic', () => {
    it('create all, and may name each other in any order', async () => {
      const { results } = await app.batch(
        [
          thing({ did: 'did:ring:a', relationships: [{ role: 'x', target: 'did:ring:b' }] }),
          thing({ did: 'did:ring:b', relationships: [{ role: 'x', target: 'did:ring:a' }] }),
        ],
        '?atomic=true',
      )
      expect(results).toEqual([
        { line: 1, status: 201, did: 'did:ring:a', version: 1 },
        { line: 2, status: 201, did: 'did:ring:b', version: 1 },
      ])
      expect((await app.get(app.at('did:ring:a', '/graph?depth=5'))).body.edges).toHaveLength(2)
    })

    it('or nothing, and say which lines are to blame', async () => {
      const before = await count('All')
      const good = Array.from({ length: 1200 }, (_, n) =>
        thing({ type: 'All', did: `did:all:${n}` }),
      )
      for (const [bad, status] of [
        [thing({ properties: { nam: 'x' } }), 400],
        ['{', 400],
        [thing({ did: 'did:all:0' }), 409],
        [thing({ relationships: [{ role: 'x', target: 'did:no:one' }] }), 422],
      ] as const) {
        const answer = await app.batch([...good, bad, ...good.slice(0, 0)], '?atomic=true')
        expect([bad, answer.status]).toEqual([bad, status])
        expect(answer.body).toMatchObject({
          statusCode: status,
          message: expect.stringMatching(/^Line 1201: .*Nothing was stored\.$/),
          details: [{ line: 1201, status }],
        })
      }
      expect(await count('All')).toBe(before)
      expect((await app.batch(good, '?atomic=true')).results).toHaveLength(1200)
    })

    it('have a bound', async () => {
      const line = `${JSON.stringify(thing({ type: 'Bound' }))}\n`
      const answer = await app.batch([line.repeat(50_001)], '?atomic=true')
      expect([answer.status, answer.body.code]).toEqual([413, 'BODY_TOO_LARGE'])
      expect(await count('Bound')).toBe(0)
    })
  })

  it('answer while the lines still come, and keep what came before a client left', async () => {
    const outgoing = httpRequest(`${app.url}/v1/entities/batch`, {
      method: 'POST',
      headers: { ...asKey, 'content-type': 'application/x-ndjson' },
    })
    outgoing.on('error', () => {})
    const line = `${JSON.stringify(thing({ type: 'Cut' }))}\n`
    outgoing.write(line.repeat(500))
    const [response] = await once(outgoing, 'response')
    const [chunk] = await once(response, 'data')
    expect(JSON.parse(String(chunk).split('\n')[0]!)).toMatchObject({ line: 1, status: 201 })
    response.on('error', () => {})
    outgoing.destroy()
    await expect.poll(() => count('Cut')).toBe(500)
    // After the batch other writers can use the database again.
    expect((await app.entity()).version).toBe(1)
  })

  it('take nothing but NDJSON, and nothing at all', async () => {
    expect((await app.post('/v1/entities/batch', {})).status).toBe(415)
    expect((await app.batch([])).results).toEqual([])
    expect((await app.batch([], '?atomic=true')).results).toEqual([])
    expect((await app.batch([], '?atomic=perhaps')).status).toBe(400)
  })
})
