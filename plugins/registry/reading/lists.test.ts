import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp } from '../../../test/support/registry.ts'

await onEachDatabase('lists', (where) => {
  const app = registryApp(where)
  const list = async (query: string) => {
    const { status, body } = await app.get(`/v1/entities?${query}`)
    expect([query, status, body.message]).toEqual([query, 200, undefined])
    return body
  }
  const dids = async (query: string) =>
    (await list(query)).items.map(({ did }: { did: string }) => did)

  it('narrow by type, protocol, controller, class, status and text', async () => {
    const protocol = await app.protocol({
      type: 'Protocol',
      properties: { name: 'string', note: 'object' },
    })
    const make = async (body: object) => (await app.entity(body)).did
    const a = await make({ type: 'Listed', did: 'did:ixo:listed-alpha' })
    const b = await make({ type: 'Listed', class: 'physical-twin', controller: 'did:ixo:amina' })
    const c = await make({
      type: 'OtherListed',
      protocol: protocol.did,
      properties: { name: '100% Kitchen_ÄÖ', note: { inner: ['deep treasure'] } },
    })
    expect(await dids('type=Listed')).toEqual([a, b])
    expect(await dids(`protocol=${protocol.did}`)).toEqual([c])
    expect(await dids('controller=did:ixo:amina')).toEqual([b])
    expect(await dids('class=physical-twin')).toEqual([b])
    expect(await dids(`type=Listed&controller=${encodeURIComponent(app.oracleDid)}`)).toEqual([a])
    expect(await dids('q=LISTED-ALPHA')).toEqual([a])
    expect(await dids('q=otherlisted')).toEqual([c])
    expect(await dids('q=0%25%20kitchen_%C3%A4%C3%B6')).toEqual([c])
    expect(await dids('q=treasure')).toEqual([c])
    for (const q of ['kitchenx', '0_ kit', 'k%25n_', '\\', "' or 1=1 --"])
      expect([q, await dids(`q=${encodeURIComponent(q)}`)]).toEqual([q, []])
    expect(await dids('type=Listed&q=')).toEqual([a, b])
    await app.delete(app.at(b), { 'if-match': '*' })
    expect(await dids('type=Listed')).toEqual([a])
    expect(await dids('type=Listed&status=deactivated')).toEqual([b])
    expect(await dids('type=Listed&status=all')).toEqual([a, b])
  })

  it('find what lies far apart, slice by slice, and page through it', async () => {
    const lines = Array.from({ length: 5000 }, (_, n) => ({
      type: 'Far',
      protocol: app.open,
      properties: { name: n % 2400 === 7 ? 'a needle' : 'hay', n },
    }))
    const { results } = await app.batch(lines)
    expect(results.filter(({ error }) => error)).toEqual([])
    const numbers = async (query: string) => {
      const found: number[] = []
      let cursor: string | undefined
      do {
        const page = await list(`${query}${cursor ? `&cursor=${cursor}` : ''}`)
        found.push(...page.items.map((item: any) => item.properties.n)) // any: members of an answer
        cursor = page.nextCursor
      } while (cursor)
      return found
    }
    expect(await numbers('type=Far&q=needle')).toEqual([7, 2407, 4807])
    expect(await numbers('type=Far&property.name=a needle&limit=1')).toEqual([7, 2407, 4807])
    expect(await numbers('type=Far&property.n=4999')).toEqual([4999])
    expect(await numbers(`type=Far&protocol=${app.open}&q=needle&limit=2`)).toEqual([7, 2407, 4807])
  })

  it('narrow by exact values of properties, of every type', async () => {
    const protocol = await app.protocol({
      type: 'Protocol',
      properties: { s: 'string', 'o.d"d $name': 'string', n: 'number', b: 'boolean', l: 'array' },
    })
    const make = async (properties: object) =>
      (await app.entity({ type: 'Valued', protocol: protocol.did, properties })).did
    const text = await make({ s: '5', 'o.d"d $name': 'x' })
    const number = await make({ n: 5 })
    const fraction = await make({ n: 12.5, b: true })
    const large = await make({ n: 1e21, b: false })
    const other = await make({ s: 'true', l: [5] })
    const by = (name: string, value: string) =>
      dids(`type=Valued&property.${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    expect(await by('s', '5')).toEqual([text])
    expect(await by('n', '5')).toEqual([number])
    expect(await by('n', '5.0')).toEqual([number])
    expect(await by('n', '12.5')).toEqual([fraction])
    expect(await by('n', '1e21')).toEqual([large])
    expect(await by('b', 'true')).toEqual([fraction])
    expect(await by('b', 'false')).toEqual([large])
    expect(await by('s', 'true')).toEqual([other])
    expect(await by('o.d"d $name', 'x')).toEqual([text])
    for (const [name, value] of [
      ['n', 'abc'],
      ['n', ''],
      ['n', '0'],
      ['b', '1'],
      ['l', '5'],
      ['missing', 'x'],
      ['s', "' or '1'='1"],
    ] as const)
      expect([name, value, await by(name, value)]).toEqual([name, value, []])
    expect(await dids('type=Valued&property.n=12.5&property.b=true')).toEqual([fraction])
    expect(await dids('type=Valued&property.n=12.5&property.b=false')).toEqual([])
  })

  it('have pages, each with the edges of its items', async () => {
    const target = await app.entity()
    const made = []
    for (let n = 0; n < 7; n++)
      made.push(
        await app.entity({
          type: 'Paged',
          relationships: n % 2 ? [{ role: 'x', target: target.did }] : [],
        }),
      )
    const first = await list('type=Paged&limit=3')
    expect(first.items).toEqual(made.slice(0, 3))
    const second = await list(`type=Paged&limit=3&cursor=${first.nextCursor}`)
    expect(second.items).toEqual(made.slice(3, 6))
    const third = await list(`type=Paged&limit=3&cursor=${second.nextCursor}`)
    expect(third).toEqual({ items: made.slice(6) })
    expect(await list('type=Paged&limit=7')).toEqual({ items: made })
  })

  it('stay complete while others insert and delete: nothing twice, nothing missed', async () => {
    const before = []
    for (let n = 0; n < 40; n++) before.push((await app.entity({ type: 'Moving' })).did)
    const doomed = before.filter((_, n) => n % 4 === 0)
    const lasting = before.filter((_, n) => n % 4 !== 0)
    const inserted: string[] = []
    const seen: string[] = []
    let query = 'type=Moving&limit=3'
    for (;;) {
      const [page] = await Promise.all([
        list(query),
        app.entity({ type: 'Moving' }).then(({ did }) => inserted.push(did)),
        doomed.length > 0 && app.delete(app.at(doomed.shift()!), { 'if-match': '*' }),
        app.patch(
          app.at(lasting[seen.length % lasting.length]!),
          { properties: { n: 1 } },
          { 'if-match': '*' },
        ),
      ])
      seen.push(...page.items.map(({ did }: { did: string }) => did))
      if (!page.nextCursor || seen.length > 200) break
      query = `type=Moving&limit=3&cursor=${page.nextCursor}`
    }
    expect(new Set(seen).size).toBe(seen.length)
    expect(seen.filter((did) => lasting.includes(did))).toEqual(lasting)
    // The pages contain no entity that was created after the last page was read.
    const known = new Set([...before, ...inserted])
    expect(seen.filter((did) => !known.has(did))).toEqual([])
  })

  it('refuse what they cannot read', async () => {
    for (const query of [
      'limit=0',
      'limit=1001',
      'limit=x',
      'limit=1.5',
      'cursor=',
      'cursor=nonsense',
      'cursor=YWZ0ZXI6LTE',
      'status=gone',
      `q=${'x'.repeat(201)}`,
      'property.a=1&property.a=2',
      'type=a&type=b',
      '__proto__=x',
    ])
      expect([query, (await app.get(`/v1/entities?${query}`)).status]).toEqual([query, 400])
    expect((await app.get('/v1/entities?cursor=nonsense')).body.details).toEqual([
      { path: 'cursor', message: 'give the nextCursor of a list' },
    ])
  })
})
