import { beforeAll, expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp } from '../../../test/support/registry.ts'

const many = 11_000
const meter = {
  type: 'Protocol',
  properties: { serial: 'string', region: 'string', tags: 'array', rank: 'integer' },
  indexes: { serial: 'string', region: 'string', tags: 'string', rank: 'number' },
}

await onEachDatabase('queries that ask for an edge and a property', (where) => {
  const app = registryApp(where)
  let crowded = ''
  let quiet = ''
  const didOf = (n: number) => `did:ixo:entity/meter-${String(n).padStart(6, '0')}`
  /** A place in an order that is neither that of creation nor that of the ids, with many meters at each. */
  const rankOf = (n: number) => (n * 7919) % 997
  const byRank = (a: number, b: number) => rankOf(a) - rankOf(b) || a - b
  /** Every page of a query, followed by its cursor. */
  const pagesOf = async (condition: string, more: object = {}) => {
    const pages: string[][] = []
    let cursor: string | undefined
    do {
      const { status, body } = await app.post('/v1/query', { where: condition, cursor, ...more })
      expect([condition, status, body.message]).toEqual([condition, 200, undefined])
      pages.push(body.items.map(({ did }: { did: string }) => did))
      cursor = body.nextCursor
    } while (cursor)
    return pages
  }

  // More meters than a page looks at, each with an edge to the crowded hub; every thousandth has one to the quiet hub too.
  beforeAll(async () => {
    const { did: protocol } = await app.protocol(meter)
    crowded = (await app.entity()).did
    quiet = (await app.entity()).did
    const lines = Array.from({ length: many }, (_, n) => ({
      did: didOf(n),
      type: 'Meter',
      protocol,
      properties: {
        serial: `S-${n}`,
        region: n % 2 === 0 ? 'north' : 'south',
        tags: [`T-${n % 5000}`, `U-${n % 5000}`],
        rank: rankOf(n),
      },
      relationships: [
        { role: 'joins', target: crowded },
        ...(n % 1000 === 0 ? [{ role: 'joins', target: quiet }] : []),
      ],
    }))
    const { results } = await app.batch(lines)
    expect(results.filter(({ error }) => error)).toEqual([])
  }, 180_000)

  it('find a rare value among many edges with the first page, wherever it stands', async () => {
    const condition = `@out.joins = '${crowded}' and serial = 'S-${many - 1}'`
    expect(await pagesOf(condition)).toEqual([[didOf(many - 1)]])
    const either = `@out.joins = '${crowded}' and serial in ('S-10998', 'S-3', 'nobody')`
    expect((await pagesOf(either)).flat().toSorted()).toEqual([didOf(3), didOf(10_998)])
  })

  it('find a rare edge among many values with the first page', async () => {
    const found = Array.from({ length: 11 }, (_, n) => didOf(n * 1000))
    expect(await pagesOf(`region = 'north' and @out.joins = '${quiet}'`)).toEqual([found])
    expect(await pagesOf(`region = 'south' and @out.joins = '${quiet}'`)).toEqual([[]])
    const both = `@out.joins = '${crowded}' and @out.joins = '${quiet}' and region = 'north'`
    expect(await pagesOf(both)).toEqual([found])
  })

  it('page through what both find, each once', async () => {
    const condition = `@out.joins = '${crowded}' and serial prefix 'S-10'`
    const pages = await pagesOf(condition, { limit: 300 })
    const found = pages.flat()
    expect(found.toSorted()).toEqual(
      [1, 10, 100, 1000].flatMap((times) =>
        Array.from({ length: times }, (_, n) => didOf(10 * times + n)),
      ),
    )
    expect(Math.max(...pages.map(({ length }) => length))).toBe(300)
    const { body } = await app.post('/v1/query', { where: condition, limit: 1, count: true })
    expect(body.count).toEqual({ entities: 1111, isExact: true })
  })

  it('count an item of a list once, where several items are asked for', async () => {
    const condition = `@out.joins = '${crowded}' and tags in ('T-7', 'U-7', 'T-8')`
    expect((await pagesOf(condition, { limit: 2 })).flat().toSorted()).toEqual(
      [7, 8, 5007, 5008, 10_007, 10_008].map(didOf),
    )
  })

  it('go on along the way that the first page took, when another has become shorter', async () => {
    const extra = (await app.entity()).did
    const [one, two, three] = [1, 2, 3].map(didOf)
    for (const did of [one, two, three])
      await app.put(app.at(did!, `/relationships/watches/${encodeURIComponent(extra)}`), {})
    const condition = `@out.watches = '${extra}' and serial in ('S-1', 'S-2', 'S-3', 'S-4')`
    const ask = async (cursor?: string) =>
      (await app.post('/v1/query', { where: condition, limit: 1, cursor })).body
    const first = await ask()
    expect(first.items.map(({ did }: { did: string }) => did)).toEqual([one])
    for (const n of [5, 6, 7])
      await app.put(app.at(didOf(n), `/relationships/watches/${encodeURIComponent(extra)}`), {})
    const second = await ask(first.nextCursor)
    const third = await ask(second.nextCursor)
    expect([second, third].map(({ items }) => items[0].did)).toEqual([two, three])
    expect(third.nextCursor).toBeUndefined()
  })

  it('sort what a rare edge or value finds, without walking along the sort', async () => {
    const quietOnes = Array.from({ length: 11 }, (_, n) => n * 1000)
    const atQuiet = `@out.joins = '${quiet}'`
    const dids = (numbers: readonly number[]) => numbers.map(didOf)
    expect(await pagesOf(atQuiet, { sort: 'rank' })).toEqual([dids(quietOnes.toSorted(byRank))])
    const falling = quietOnes.toSorted((a, b) => byRank(b, a))
    expect(await pagesOf(atQuiet, { sort: '-rank', limit: 4 })).toEqual([
      dids(falling.slice(0, 4)),
      dids(falling.slice(4, 8)),
      dids(falling.slice(8)),
    ])
    expect(await pagesOf(atQuiet, { sort: '-@created' })).toEqual([dids(quietOnes.toReversed())])
    const low = `${atQuiet} and rank < 500 and region = 'north'`
    const isLow = (n: number) => rankOf(n) < 500
    expect(await pagesOf(low, { sort: 'rank' })).toEqual([
      dids(quietOnes.filter(isLow).toSorted(byRank)),
    ])
    expect(await pagesOf(`serial = 'nobody'`, { sort: 'rank' })).toEqual([[]])
    // T-0 and U-0 are the tags of 0, 5000 and 10,000, and so on: the least tag orders one way, the greatest the other.
    const tagOf = (n: number) => `T-${n % 5000}`
    const byTag = (a: number, b: number) =>
      tagOf(a) < tagOf(b) ? -1 : tagOf(a) > tagOf(b) ? 1 : a - b
    const tagged = quietOnes.toSorted(byTag)
    expect(await pagesOf(atQuiet, { sort: 'tags', limit: 6 })).toEqual([
      dids(tagged.slice(0, 6)),
      dids(tagged.slice(6)),
    ])
    expect(await pagesOf(atQuiet, { sort: '-tags' })).toEqual([dids(tagged.toReversed())])
  })

  it('fill every page of a sorted query, whether it walks or gathers, and count what it gathers', async () => {
    const some = [1, 10, 100, 1000]
      .flatMap((times) => Array.from({ length: times }, (_, n) => 10 * times + n))
      .toSorted(byRank)
    const pages = await pagesOf("serial prefix 'S-10'", { sort: 'rank', limit: 300 })
    expect(pages).toEqual([0, 300, 600, 900].map((at) => some.slice(at, at + 300).map(didOf)))
    const body = { where: "serial prefix 'S-10'", sort: '-rank', limit: 1, count: true }
    expect((await app.post('/v1/query', body)).body).toMatchObject({
      items: [{ did: didOf(some.at(-1)!) }],
      count: { entities: 1111, isExact: true },
    })
    // Half of all is too much to gather.
    const half = Array.from({ length: many }, (_, n) => n)
      .filter((n) => n % 2 === 0)
      .toSorted(byRank)
    const walked = await app.post('/v1/query', { where: "region = 'north'", sort: 'rank' })
    expect(walked.body.items.map(({ did }: { did: string }) => did)).toEqual(
      half.slice(0, walked.body.items.length).map(didOf),
    )
  })
})
