import { expect } from 'vitest'
import { verify } from './verify-credential.ts'
import { strata } from '../../examples/cooking/protocols.ts'
import type { Call } from '../../examples/cooking/seed.ts'

/**
 * What stands in a filled server: each claim decided once, each credit minted once. `asked`: the claim that the agent decides
 * waits for a person instead.
 */
export async function check(call: Call, url?: string, asked = false) {
  const { items: claims } = await call('GET', '/v1/claims?limit=100')
  const { items: credits } = await call('GET', '/v1/entities?type=CarbonCreditEntity&limit=100')
  const { items: credentials } = await call('GET', '/v1/credentials?limit=100')
  const { items: twins } = await call('GET', '/v1/entities?type=CookstoveEntity&limit=100')
  expect(new Set(twins.map((twin: any) => twin.properties.stratum))).toEqual(new Set(strata)) // any: an entity as it came
  const kinds = Map.groupBy(claims, ({ type }: any) => type) // any: a claim as it came
  expect([kinds.get('FuelDelivery')?.length, kinds.size]).toEqual([3, 2])
  const of = (status: string) => claims.filter((claim: any) => claim.status === status) // any: a claim as it came
  expect([claims.length, of('approved').length, of('rejected').length]).toEqual([
    ...[15, 13, asked ? 1 : 2],
  ])
  expect(
    of('rejected')
      .map((one: any) => [one.subject, one.evaluation.by]) // any: a claim as it came
      .sort(),
  ).toEqual([
    ['did:ixo:cooking:stove-3', 'rules'],
    ...(asked ? [] : [['did:ixo:cooking:stove-7', 'agent']]),
  ])
  expect([credits.length, credentials.length]).toEqual([10, 13])
  const stoves = credits.map((credit: any) => credit.relationships[0].target) // any: an entity as it came
  expect(new Set(stoves).size).toBe(10)
  const [credit] = credits
  const trail = await call('GET', `/v1/entities/${credit.did}/provenance`)
  expect(trail.links[0].claim.properties.readings).toHaveLength(31)
  expect(trail.links[0]).toMatchObject({
    claim: { evaluation: { by: 'rules', declaredBy: 'key:ben' } },
    working: { imprecision: { share: 0.05 }, quantity: credit.properties.tonnes },
    asset: { did: credit.relationships[0].target },
    above: expect.arrayContaining([expect.objectContaining({ did: 'did:ixo:cooking:project' })]),
  })
  // The address of the status list is that of the server that signed: where that one was killed, nobody answers there.
  if (url !== undefined)
    expect(await verify(trail.links[0].credential.document, url)).toMatchObject({ verified: true })
  return { claims, credits }
}
