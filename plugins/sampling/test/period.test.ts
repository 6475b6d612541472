import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { apiKeys, asKey, asVerifier } from '../../../test/support/registry.ts'
import registry from '../../registry/index.ts'
import sampling from '../index.ts'

const homes = 'did:ixo:protocol/homes'
const survey = 'did:ixo:protocol/survey'
const a = 0.31
const hours = [4 - a, 4 - a, 4 - a, 4, 4 + a, 4 + a, 4 + a]

await onEachDatabase('a period, from the claims about the twins that were drawn', (on) => {
  let app: TestApp
  let at = ''
  beforeAll(async () => {
    const database = on.databaseUrl ? { DATABASE_URL: on.databaseUrl } : {}
    app = await testApp({ plugins: [registry, sampling], env: { API_KEY: apiKeys, ...database } })
    await send('/v1/protocols', { did: homes, type: 'Protocol', properties: {} })
    const properties = { hours: 'number', none: 'number', huge: 'number', wide: 'number' }
    const when = { '<': [{ var: 'claim.none' }, 1] }
    const evaluation = { rules: [{ when, then: 'approve', because: 'It is a rehearsal.' }] }
    await send(
      '/v1/protocols',
      { did: survey, type: 'Protocol', properties, evaluation },
      asVerifier,
    )
    const ids = Array.from({ length: 20 }, (_, n) => `did:ixo:home/${n}`)
    for (const did of ids)
      await send('/v1/entities', { did, type: 'Household', protocol: homes, properties: {} })
    const { designId } = await send('/v1/sampling', {
      projectId: 'did:ixo:project/lusaka',
      population: 20,
      confidence: 0.95,
      precision: 0.05,
      expectedMean: 4,
      expectedSD: 0.42,
      dropoutRate: 0,
    })
    at = `/v1/sampling/${designId}`
    const beacon = { source: 'caller', round: 'a word of mine' }
    await send(`${at}/selection/commit`, { frame: { all: ids }, beacon })
    const { strata } = await send(`${at}/selection`, { beaconHex: 'ab'.repeat(32) })
    expect(strata[0].ids).toHaveLength(10)
    for (const [n, value] of hours.entries())
      await send('/v1/claims', {
        subject: strata[0].ids[n],
        type: 'Survey',
        protocol: survey,
        properties: { hours: value, none: 0, huge: 1e308, wide: n === 0 ? 1e200 : 1 },
      })
    await vi.waitFor(async () => expect(await completes('')).toBe(hours.length), 20_000)
  })
  afterAll(() => app?.close())

  const send = async (path: string, body: unknown, headers = asKey): Promise<any> => {
    // any: the tests read members of the answers
    const answer = await app.post(path, body, headers)
    expect([path, answer.status, answer.body]).toEqual([
      path,
      expect.toBeOneOf([200, 201]),
      answer.body,
    ])
    return answer.body
  }
  const completes = async (query: string): Promise<number> => {
    const { body } = await app.get(`${at}/survey?protocol=${survey}${query}`, { headers: asKey })
    return body.strata[0].completes
  }

  it('compares times as times, in whatever offset they are written', async () => {
    const inHours = (from: number, offset: number) => {
      const wall = new Date(Date.now() + (from + offset) * 3_600_000).toISOString().slice(0, 19)
      const written = `${wall}${offset < 0 ? '-' : '+'}0${Math.abs(offset)}:00`
      return encodeURIComponent(written)
    }
    expect(await completes(`&since=${inHours(-1, 5)}`)).toBe(7)
    expect(await completes(`&since=${inHours(1, -5)}`)).toBe(0)
    expect(await completes(`&until=${inHours(1, -5)}`)).toBe(7)
    expect(await completes(`&until=${inHours(-1, 5)}`)).toBe(0)
  })

  it('refuses values of which no size can be worked out, and names the property', async () => {
    for (const [property, words] of [
      ['none', 'the mean 0'],
      ['huge', 'too large'],
      ['wide', 'too large'],
    ] as const) {
      const { status, body } = await app.post(
        `${at}/survey/recalculate`,
        { protocol: survey, property },
        asKey,
      )
      expect([property, status, body.details?.[0].path, body.message]).toEqual([
        property,
        400,
        'property',
        expect.stringContaining(words),
      ])
    }
  })

  it('takes the dropout as the fraction that it is, so that no household too many is drawn', async () => {
    const { parameters, change } = await send(`${at}/survey/recalculate`, {
      protocol: survey,
      property: 'hours',
    })
    expect(parameters).toMatchObject({ dropoutRate: 0.3, calculatedSize: 7, adjustedSize: 10 })
    expect(change).toMatchObject({ delta: 0, direction: 'unchanged' })
  })
})
