import { expect, it } from 'vitest'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { registryApp } from '../../../test/support/registry.ts'

const meter = {
  type: 'Protocol',
  properties: {
    serial: 'string',
    power: 'number',
    active: 'boolean',
    since: 'date-time',
    tags: 'array',
    site: 'object',
    location: 'object',
    secret: 'string',
    hidden: 'string',
  },
  indexes: {
    serial: 'string',
    power: 'number',
    active: 'boolean',
    since: 'date-time',
    tags: 'string',
    'site.region': 'string',
    location: 'geo',
  },
}

await onEachDatabase('queries', (where) => {
  const app = registryApp(where)
  const query = async (body: object) => {
    const answer = await app.post('/v1/query', body)
    expect([body, answer.status, answer.body.message]).toEqual([body, 200, undefined])
    return answer.body
  }
  /** Meters of a new protocol; the answers to conditions are their serials. */
  const meters = async (all: readonly Record<string, unknown>[]) => {
    const protocol = await app.protocol(meter)
    const made: { did: string; properties: { serial: string } }[] = []
    for (const { relationships, ...properties } of all)
      made.push(
        await app.entity({ type: 'Meter', protocol: protocol.did, properties, relationships }),
      )
    const ask = (condition: string, more = {}) =>
      query({
        where: `@protocol = $p and (${condition})`,
        parameters: { p: protocol.did },
        ...more,
      })
    const serials = async (condition: string, more = {}) =>
      (await ask(condition, more)).items.map((item: any) => item.properties.serial) // any: members of an answer
    return { protocol, made, ask, serials }
  }

  it('compare, list, range, match beginnings and parts, and reach into objects and lists', async () => {
    const { serials } = await meters([
      { serial: 'A-1', power: 1, active: true, since: '2026-01-01T00:00:00Z', tags: ['x', 'y'] },
      { serial: 'A-2', power: 2.5, active: false, site: { region: 'Lusaka' } },
      { serial: 'B-1', power: -3, since: '2026-03-01T02:00:00+02:00', tags: ['y'] },
      { serial: 'it\'s \\ % _ "q"', power: 1e21, site: { region: 'Kafue' } },
      { serial: 'Ünï-𝒳' },
    ])
    const expected: [string, string[]][] = [
      ["serial = 'A-1'", ['A-1']],
      ["serial in ('B-1', 'A-2', 'nobody')", ['A-2', 'B-1']],
      ["serial prefix 'A-'", ['A-1', 'A-2']],
      ["serial contains '-1'", ['A-1', 'B-1']],
      ['power > 1', ['A-2', 'it\'s \\ % _ "q"']],
      ['power >= 1 and power < 2.5', ['A-1']],
      ['power between -3 and 1', ['B-1', 'A-1']],
      ['active = true', ['A-1']],
      ['active != true', ['A-2']],
      ["since < '2026-02-01T00:00:00Z'", ['A-1']],
      ["since = '2026-03-01T00:00:00Z'", ['B-1']],
      ["tags = 'y'", ['A-1', 'B-1']],
      ["tags in ('x', 'y')", ['A-1', 'B-1']],
      ["site.region = 'Lusaka'", ['A-2']],
      ["not (power > 0) and serial prefix 'B'", ['B-1']],
      ["serial = 'A-1' or power = 1e21", ['A-1', 'it\'s \\ % _ "q"']],
      [`serial = 'it''s \\ % _ "q"'`, ['it\'s \\ % _ "q"']],
      ["serial prefix 'Ünï'", ['Ünï-𝒳']],
      ["serial = 'x'' or 1 = 1 --'", []],
      ["serial = '); drop table registry_entities; --'", []],
    ]
    for (const [condition, found] of expected)
      expect([condition, await serials(condition)]).toEqual([condition, found])
  })

  it('find what lies in a box, also across the date line', async () => {
    const { serials } = await meters([
      { serial: 'Lusaka', location: { latitude: -15.4, longitude: 28.3 } },
      { serial: 'Suva', location: { type: 'Point', coordinates: [178.4, -18.1] } },
      { serial: 'Apia', location: { latitude: -13.8, longitude: -171.8 } },
      { serial: 'nowhere', location: { latitude: 91, longitude: 0 } },
    ])
    expect(await serials('location within (-16, 28, -15, 29)')).toEqual(['Lusaka'])
    expect(await serials('location within (-20, 170, -10, -170)')).toEqual(['Suva', 'Apia'])
    expect(await serials('location within (-90, -180, 90, 180)')).toHaveLength(3)
  })

  it('ask for edges in both directions', async () => {
    const other = await app.entity()
    const { made, serials } = await meters([
      { serial: 'near', power: 1, relationships: [{ role: 'operator', target: other.did }] },
      { serial: 'far', power: 1 },
    ])
    const role = { role: 'distributes', target: made[1]!.did }
    const source = await app.entity({ relationships: [role] })
    expect(await serials(`@out.operator = '${other.did}'`)).toEqual(['near'])
    expect(await serials(`@in.distributes = '${source.did}' and power = 1`)).toEqual(['far'])
    expect(await serials(`power = 1 and not (@out.operator = '${other.did}')`)).toEqual(['far'])
  })

  it('sort, count and page by the place in the index, and lose nothing while others write', async () => {
    const all = Array.from({ length: 23 }, (_, n) => ({ serial: `S-${n}`, power: (n * 7) % 10 }))
    const { made, ask } = await meters(all)
    const expected = all
      .map((one, n) => ({ ...one, n }))
      .sort((a, b) => b.power - a.power || b.n - a.n)
      .map(({ serial }) => serial)
    const found: string[] = []
    let cursor: string | undefined
    do {
      const page = await ask('power >= 0', { sort: '-power', limit: 4, count: true, cursor })
      expect(page.count).toEqual({ entities: 23, isExact: true })
      found.push(...page.items.map((item: any) => item.properties.serial)) // any: members of an answer
      cursor = page.nextCursor
      if (found.length === 8)
        await app.patch(
          app.at(made[0]!.did),
          { properties: { serial: 'S-0', secret: 'written meanwhile' } },
          { 'if-match': '*' },
        )
    } while (cursor)
    expect(found).toEqual(expected)
    const { nextCursor } = await ask('power >= 0', { limit: 4 })
    const strange = await app.post('/v1/query', { where: '@type = "x"', cursor: nextCursor })
    expect(strange.body.details[0]).toMatchObject({ path: 'cursor' })
  })

  it('follow every change of an entity and of what its protocol declares', async () => {
    const { protocol, made, serials } = await meters([{ serial: 'one', power: 1, secret: 's' }])
    const [one] = made
    await app.patch(app.at(one!.did), { properties: { power: 2 } }, { 'if-match': '*' })
    expect(await serials('power = 1')).toEqual([])
    expect(await serials('power = 2')).toEqual(['one'])
    const { active: _, ...kept } = meter.indexes
    const next = { ...meter, indexes: { ...kept, secret: 'string' } }
    expect((await app.put(`/v1/protocols/${protocol.did}`, next)).status).toBe(200)
    const ask = (condition: string) =>
      app.post('/v1/query', { where: `@protocol = '${protocol.did}' and ${condition}` })
    // Filling is a job: until it has ended, the answer says so.
    await expect.poll(async () => (await ask("secret = 's'")).status, { timeout: 60_000 }).toBe(200)
    expect((await ask("secret = 's'")).body.items).toHaveLength(1)
    await app.delete(app.at(one!.did), { 'if-match': '*' })
    expect(await serials('power = 2')).toEqual([])
    expect(await serials('power = 2', { status: 'all' })).toEqual(['one'])
  })

  it('show a caller only what is his, and no index of protocols that are not', async () => {
    const { protocol } = await meters([{ serial: 'of another', power: 1 }])
    const mallory = await app.app.user()
    const ask = async () => mallory.get(`/v1/entities?where=${encodeURIComponent('power = 1')}`)
    expect((await ask()).status).toBe(403)
    const controller = mallory.did
    await app.entity({ controller })
    expect((await ask()).body.message).toContain('no index has "power"')
    const hers = { serial: 'hers', power: 1 }
    await app.entity({ controller, protocol: protocol.did, properties: hers })
    expect((await ask()).body.items.map((item: any) => item.properties.serial)).toEqual(['hers']) // any: members of an answer
    expect((await mallory.post('/v1/query', { where: 'power = 1' })).status).toBe(403)
  })

  it('stand in the address of a list too, beside its filters', async () => {
    const { protocol } = await meters([
      { serial: 'x', power: 1 },
      { serial: 'y', power: 5 },
    ])
    const list = async (address: string) =>
      (await app.get(`/v1/entities?protocol=${protocol.did}&${address}`)).body
    const condition = encodeURIComponent("power > 0 and serial != 'y'")
    expect((await list(`where=${condition}&count=true`)).count).toMatchObject({ entities: 1 })
    expect((await list('sort=-power&limit=1')).items[0].properties.serial).toBe('y')
    expect((await list('sort=power&q=METER')).items).toHaveLength(2)
    // A bracket in the condition cannot leave the filters beside it.
    const leaving = encodeURIComponent("power > 0) or (@type = 'Thing'")
    expect((await list(`where=${leaving}`)).code).toBe('INVALID_INPUT')
  })

  it('take every value for a value, wherever it stands, and nothing of it for a command', async () => {
    const { protocol, ask, serials } = await meters([{ serial: 'only', power: 1, tags: ['t'] }])
    const attacks = [
      "' or '1'='1",
      "x'; drop table registry_entities; --",
      'x" or 1 = 1 --',
      "') union select did from registry_entities --",
      '%',
      '_nly',
      '\\',
      '$p',
      '\u0001',
    ]
    for (const attack of attacks) {
      const quoted = `'${attack.replaceAll("'", "''")}'`
      for (const condition of [
        `serial = ${quoted}`,
        `serial in (${quoted}, 'nobody')`,
        `serial prefix ${quoted}`,
        `serial contains ${quoted}`,
        `serial between ${quoted} and ${quoted}`,
        `tags = ${quoted}`,
        `@did = ${quoted}`,
        `@type prefix ${quoted}`,
        `@controller = ${quoted}`,
        `@text contains ${quoted}`,
        `@out.joins = ${quoted}`,
        `@in.joins in (${quoted}, 'did:ixo:entity/none')`,
      ])
        expect([condition, await serials(condition)]).toEqual([condition, []])
      for (const condition of ['serial = $a', '@did = $a', '@out.joins = $a', 'serial prefix $a']) {
        const parameters = { p: protocol.did, a: attack }
        expect([attack, condition, (await ask(condition, { parameters })).items]).toEqual([
          attack,
          condition,
          [],
        ])
      }
      for (const body of [
        { where: `power = ${quoted}` },
        { where: `${attack} = 1` },
        { where: `@out.${attack} x = 'x'` },
        { where: 'power = $p', parameters: { p: attack } },
        { sort: attack },
        { cursor: attack },
      ])
        expect([body, (await app.post('/v1/query', body)).status]).toEqual([body, 400])
      expect(await serials(`serial != ${quoted}`)).toEqual(['only'])
    }
  })

  it('refuse what they cannot answer, and say where it stands', async () => {
    const { protocol } = await meters([])
    const faults: [object, string][] = [
      [{ where: `${'('.repeat(33)}power = 1${')'.repeat(33)}` }, 'deeper than 32'],
      [{ where: `${'not '.repeat(40)}power = 1` }, 'deeper than 32'],
      [{ where: `power = ${' '.repeat(10_000)}1` }, '10000 bytes'],
      [{ where: Array.from({ length: 201 }, () => 'power=1').join(' or ') }, '200 comparisons'],
      [{ where: `power in (${Array.from({ length: 101 }, (_, n) => n).join()})` }, '1 to 100'],
      [{ where: 'pwoer = 1' }, 'did you mean "power"?'],
      [{ where: "hidden = 'x'" }, 'no index has "hidden"'],
      [{ where: "power = 'x'" }, 'a number'],
      [{ where: 'serial = 1' }, 'a text'],
      [{ where: "since > 'yesterday'" }, 'a date and time'],
      [{ where: 'active > true' }, 'not compared by ">"'],
      [{ where: 'power = 1e999' }, 'too large'],
      [{ where: 'location within (10, 0, -10, 0)' }, 'south before north'],
      [{ where: 'location within (0, 0, 10)' }, 'give 4 values'],
      [{ where: "@typ = 'x'" }, 'did you mean "@type"?'],
      [{ where: 'power = $missing' }, 'the condition names $missing'],
      [{ where: 'power = $__proto__' }, '$__proto__'],
      [{ where: "serial = 'open" }, 'at position'],
      [{ where: 'power = 1 power = 2' }, 'at position 10'],
      [{ where: 'power == 1' }, 'at position'],
      [{ where: 'power' }, 'after "power" comes'],
      [{ where: '' }, 'at position 0'],
      [{ where: '1 = 1' }, 'the name of a property'],
      [{ sort: 'hidden' }, '"sort" is not valid: no index has "hidden"; there are'],
      [{ sort: '-powr' }, 'no index has "powr"; did you mean "power"?$'],
      [{ cursor: 'nonsense' }, 'cursor'],
      [{ whre: 'power = 1' }, 'whre'],
      [{ limit: 1001 }, '1 to 1000'],
    ]
    for (const [body, words] of faults) {
      const { status, body: answer } = await app.post('/v1/query', body)
      expect([body, status, `${answer.message}$`]).toEqual([
        body,
        400,
        expect.stringContaining(words),
      ])
    }
    for (const [indexes, words] of [
      [{ pwer: 'number' }, 'did you mean "power"?'],
      [{ serial: 'number' }, 'index it as string'],
      [{ 'serial.x': 'string' }, 'holds no "x"'],
      [{ power: 'float' }, 'one of string, number'],
    ] as const) {
      const refused = await app.put(`/v1/protocols/${protocol.did}`, { ...meter, indexes })
      expect([indexes, refused.status, refused.body.message]).toEqual([
        indexes,
        400,
        expect.stringContaining(words),
      ])
    }
  })
})
