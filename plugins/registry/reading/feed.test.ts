import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { onEachDatabase, onPostgres } from '../../../test/support/each-database.ts'
import { openStream, type Seen } from '../../../test/support/event-stream.ts'
import { asKey, registryApp } from '../../../test/support/registry.ts'
import registry from '../index.ts'

await onEachDatabase('the feed of changes', (where) => {
  const app = registryApp(where)
  const open = (query = '', headers = {}) =>
    openStream(`${app.url}/v1/events${query}`, { ...asKey, ...headers })
  /** The id of the newest event. */
  const head = async () => {
    const stream = await open('?after=999999999999')
    const reset = await stream.next()
    stream.cut()
    return reset!.id!
  }
  const isAbout = (did: string, action: string) => (event: Seen) =>
    event.data.did === did && event.data.action === action

  it('tells of every change, in order, as it happens', async () => {
    const stream = await open()
    expect(stream.status).toBe(200)
    expect(stream.headers.get('content-type')).toBe('text/event-stream')
    const [a, b] = [await app.entity(), await app.entity({ properties: { n: 1 } })]
    await app.patch(app.at(a.did), { properties: { n: 2 } }, { 'if-match': '*' })
    const edge = app.at(a.did, `/relationships/x/${encodeURIComponent(b.did)}`)
    await app.put(edge, { properties: { since: 2 } })
    await app.delete(edge)
    await app.delete(app.at(a.did), { 'if-match': '*' })
    const { did: protocol } = await app.protocol({ type: 'Protocol' })
    const seen = await stream.until(isAbout(protocol, 'created'))
    stream.cut()
    expect(seen.map(({ event, data }) => [event, data.did, data.version])).toEqual([
      ['entity.created', a.did, 1],
      ['entity.created', b.did, 1],
      ['entity.updated', a.did, 2],
      ['entity.related', a.did, 3],
      ['entity.unrelated', a.did, 4],
      ['entity.deactivated', a.did, 5],
      ['protocol.created', protocol, 1],
    ])
    expect(seen[3]!.data).toEqual({
      did: a.did,
      type: 'Thing',
      kind: 'entity',
      action: 'related',
      version: 3,
      by: 'key:default',
      at: expect.stringMatching(/^\d{4}-.*Z$/),
      relationship: { role: 'x', target: b.did, properties: { since: 2 } },
    })
  })

  it('begins with what comes next, or behind the id that a reader had last', async () => {
    const first = await head()
    const made = []
    for (let n = 0; n < 5; n++) made.push((await app.entity()).did)
    const all = await open(`?after=${first}`)
    const seen = await all.until(isAbout(made[4]!, 'created'))
    all.cut()
    expect(seen.map(({ data }) => data.did)).toEqual(made)
    const rest = await open('', { 'last-event-id': String(seen[2]!.id) })
    expect((await rest.until(isAbout(made[4]!, 'created'))).map(({ data }) => data.did)).toEqual(
      made.slice(3),
    )
    rest.cut()
    // A browser that reconnects sends the header Last-Event-ID, while its address still has the first `after`.
    const both = await open(`?after=${first}`, { 'last-event-id': String(seen[3]!.id) })
    expect((await both.next())!.data.did).toBe(made[4])
    both.cut()
  })

  it('misses nothing and repeats nothing over reconnections, while many write', async () => {
    const first = await head()
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = 0; n < 25; n++) {
        if (n % 5 === 0)
          await app.batch(
            Array.from({ length: 20 }, () => ({
              type: 'Fed',
              protocol: app.open,
              properties: { n: writer },
            })),
          )
        else await app.entity({ type: 'Fed', properties: { n: writer } })
      }
    })
    const expected = 4 * (5 * 20 + 20)
    const seen: Seen[] = []
    for (let rounds = 0; seen.length < expected && rounds < 500; rounds++) {
      const stream = await open('?type=Fed', { 'last-event-id': String(seen.at(-1)?.id ?? first) })
      for (let n = 0; n <= rounds % 40 && seen.length < expected; n++)
        seen.push((await stream.next())!)
      stream.cut()
    }
    await Promise.all(writers)
    const ids = seen.map(({ id }) => id!)
    expect(ids).toEqual(ids.toSorted((a, b) => a - b))
    expect(new Set(ids).size).toBe(expected)
    const stored = new Set<string>()
    let cursor = ''
    do {
      const { body } = await app.get(`/v1/entities?type=Fed&limit=500${cursor}`)
      for (const { did } of body.items) stored.add(did)
      cursor = body.nextCursor ? `&cursor=${body.nextCursor}` : ''
    } while (cursor)
    expect(new Set(seen.map(({ data }) => data.did))).toEqual(stored)
    // Without a filter the feed tells every number up to the last one.
    const whole = await open(`?after=${first}`)
    const numbers = (await whole.until(({ id }) => id === ids.at(-1))).map(({ id }) => id)
    whole.cut()
    expect(numbers).toEqual(Array.from({ length: ids.at(-1)! - first }, (_, n) => first + 1 + n))
  })

  it('numbers what was committed, so that a refused change leaves no gap', async () => {
    const first = await head()
    const { did } = await app.entity()
    await app.patch(app.at(did), { properties: { n: 'x' } }, { 'if-match': '*' })
    await app.post('/v1/entities', { type: 'T', protocol: app.open, properties: {}, did })
    await app.delete(app.at(did), { 'if-match': '"9"' })
    await app.delete(app.at(did), { 'if-match': '*' })
    expect(await head()).toBe(first + 2)
  })

  it('tells only of what is asked for', async () => {
    const first = await head()
    const [a, b] = [await app.entity({ type: 'A' }), await app.entity({ type: 'B' })]
    const { did: protocol } = await app.protocol({ type: 'Protocol' })
    for (const [query, did] of [
      [`&did=${encodeURIComponent(b.did)}`, b.did],
      ['&type=A', a.did],
      ['&kind=protocol', protocol],
    ]) {
      const stream = await open(`?after=${first}${query}`)
      expect([query, (await stream.next())!.data.did]).toEqual([query, did])
      stream.cut()
    }
  })

  it('says so when an id lies in the future, and goes on from now', async () => {
    const now = await head()
    const stream = await open('', { 'last-event-id': '999999999' })
    expect(await stream.next()).toEqual({
      id: now,
      event: 'reset',
      data: { lastEventId: '999999999', head: now },
    })
    const { did } = await app.entity()
    expect((await stream.next())!.data.did).toBe(did)
    stream.cut()
  })

  it('refuses an id that is none', async () => {
    for (const [query, headers] of [
      ['?after=x', {}],
      ['?after=-1', {}],
      ['', { 'last-event-id': 'x' }],
      ['', { 'last-event-id': '1.5' }],
    ] as const) {
      const stream = await open(query, headers)
      expect([query, stream.status]).toEqual([query, 400])
      stream.cut()
    }
  })
})

await onPostgres('two replicas', (where) => {
  const app = registryApp(where)

  it('tell each other of their changes, and let one writer through at a time', async () => {
    const env = {
      API_KEY: asKey.authorization.slice('Bearer '.length),
      DATABASE_URL: where.databaseUrl!,
    }
    await using other = await testApp({ plugins: [registry], env })
    const stream = await openStream(`${other.url}/v1/events`, asKey)
    const { did } = await app.entity()
    expect((await stream.next())!.data.did).toBe(did)
    for (let round = 1; round <= 5; round++) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          (n % 2 ? app.app : other).patch(
            app.at(did),
            { properties: { n: round * 100 + n } },
            { ...asKey, 'if-match': `"${round}"` },
          ),
        ),
      )
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    }
    const seen = await stream.until(({ data }) => data.version === 6)
    stream.cut()
    expect(seen.map(({ data }) => data.version)).toEqual([2, 3, 4, 5, 6])
  })
})
