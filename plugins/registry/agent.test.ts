import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { unquote } from '../../test/support/models.ts'
import { asKey } from '../../test/support/registry.ts'
import registry from './index.ts'
import { userWith } from '../../test/support/granted-user.ts'

const API_KEY = asKey.authorization.slice('Bearer '.length)
const stoves = {
  type: 'Protocol',
  did: 'did:ixo:protocol/stoves',
  name: 'Stoves',
  properties: { name: { type: 'string', required: true }, power: 'number' },
  relationships: { operator: 'Person' },
}

await onEachDatabase('the agent', (where) => {
  let app: TestApp
  let steps: ScriptedStep[] = []
  beforeAll(async () => {
    const model = scriptedModel(Array.from({ length: 100 }, () => () => steps.shift() ?? 'done'))
    const database = where.databaseUrl ? { DATABASE_URL: where.databaseUrl } : {}
    app = await testApp({ plugins: [registry], model, env: { API_KEY, ...database } })
    await app.post('/v1/protocols', stoves, asKey)
  })
  afterAll(() => app.close())
  const at = (did: string) => `/v1/entities/${encodeURIComponent(did)}`

  /** Runs a turn of a user who delegates some capabilities, and returns the result of each call as the model received it. */
  async function converse(capabilities: readonly string[], script: readonly ScriptedStep[]) {
    const { wallet, did, granted } = await app.user()
    if (capabilities.length > 0) await granted(...capabilities)
    const own = capabilities.map((can) => ({ can, with: did })) // a delegation grants rights only on what is the user's own
    const audience = app.oracleDid
    const headers = {
      authorization: `Bearer ${(await wallet.invoke({ audience })).text}`,
      'x-auth-type': 'ucan',
      'x-ucan-delegation': (
        await wallet.delegate({
          audience,
          capabilities: [{ can: '*', with: 'ixo:oracle' }, ...own],
        })
      ).text,
    }
    const heard: { name: string; content: any; failed: boolean }[] = [] // any: the tests read members of the result
    const { body: session } = await app.post('/sessions', undefined, headers)
    steps = [
      { call: 'load_capability', args: { names: ['registry'] } },
      ...script,
      ({ messages }) => {
        for (const message of messages)
          if (message.role === 'tool' && message.name !== 'load_capability')
            heard.push({
              name: message.name,
              content: unquote(message.content),
              failed: message.failed ?? false,
            })
        return `It said: ${heard.at(-1)?.content}`
      },
    ]
    const answer = await app.post(
      `/messages/${session.sessionId}`,
      { message: 'please', stream: false },
      headers,
    )
    expect(answer.status).toBe(200)
    return { did, heard, reply: answer.body.message.content as string }
  }
  const parsed = (content: string) => JSON.parse(content)

  it('finds, creates, relates and walks', async () => {
    const person = await app.post(
      '/v1/entities',
      {
        type: 'Person',
        protocol: 'did:ixo:protocol/stoves',
        properties: { name: 'Amina' },
        did: 'did:ixo:amina',
      },
      asKey,
    )
    expect(person.status).toBe(201)
    const did = 'did:ixo:entity/agent-stove'
    const { did: user, heard } = await converse(
      ['registry/admin'],
      [
        {
          call: 'create_entity',
          args: { type: 'Stove', protocol: stoves.did, properties: { name: 'S1' }, did },
        },
        { call: 'relate_entities', args: { did, role: 'operator', target: 'did:ixo:amina' } },
        { call: 'describe_protocol', args: {} },
        { call: 'describe_protocol', args: { did: stoves.did } },
        { call: 'find_entities', args: { type: 'Stove', properties: { name: 'S1' } } },
        { call: 'traverse_entities', args: { did: 'did:ixo:amina', direction: 'in', depth: 2 } },
        { call: 'get_entity', args: { did } },
      ],
    )
    expect(heard.map(({ name, failed }) => [name, failed])).toEqual([
      ['create_entity', false],
      ['relate_entities', false],
      ['describe_protocol', false],
      ['describe_protocol', false],
      ['find_entities', false],
      ['traverse_entities', false],
      ['get_entity', false],
    ])
    expect(parsed(heard[2]!.content).items).toMatchObject([{ name: 'Stoves' }])
    expect(parsed(heard[0]!.content)).toMatchObject({ did, controller: user })
    expect(parsed(heard[4]!.content).items).toMatchObject([{ did, version: 2 }])
    expect(parsed(heard[5]!.content)).toMatchObject({
      nodes: [{ did: 'did:ixo:amina' }, { did }],
      edges: [{ from: did, role: 'operator', to: 'did:ixo:amina' }],
    })
    expect(parsed(heard[6]!.content).relationships).toEqual([
      { role: 'operator', target: 'did:ixo:amina' },
    ])
    expect((await app.get(at(did), { headers: asKey })).body.controller).toBe(user)
  })

  it('creates nothing without the capability, and the user reads why', async () => {
    const args = {
      type: 'Stove',
      protocol: stoves.did,
      properties: { name: 'S2' },
      did: 'did:ixo:s2',
    }
    const { did, heard, reply } = await converse([], [{ call: 'create_entity', args }])
    expect(heard).toMatchObject([{ name: 'create_entity', failed: true }])
    expect(reply).toContain('registry/write')
    expect(reply).toContain(did)
    expect((await app.get(at('did:ixo:s2'), { headers: asKey })).status).toBe(404)
    const other = await converse(['registry/read'], [{ call: 'create_entity', args }])
    expect(other.heard).toMatchObject([{ failed: true }])
    expect((await app.get(at('did:ixo:s2'), { headers: asKey })).status).toBe(404)
  })

  it('is told what to mend: a property meant otherwise, an entity of somebody else', async () => {
    await app.post(
      '/v1/entities',
      {
        type: 'Stove',
        protocol: stoves.did,
        properties: { name: 'foreign' },
        did: 'did:ixo:foreign',
      },
      asKey,
    )
    const { heard, did } = await converse(
      ['registry/*'],
      [
        {
          call: 'create_entity',
          args: { type: 'Stove', protocol: stoves.did, properties: { nmae: 'S3' } },
        },
        {
          call: 'relate_entities',
          args: { did: 'did:ixo:foreign', role: 'operator', target: 'did:ixo:amina' },
        },
        {
          call: 'create_entity',
          args: '{"type":"Stove","protocol":"did:ixo:protocol/stoves","properties":{"name":"\\ud800"}}',
        },
        {
          call: 'create_entity',
          args: '{"type":"Stove","protocol":"did:ixo:protocol/stoves","properties":{"__proto__":{"name":"x"}}}',
        },
        {
          call: 'create_entity',
          args: '{"type":"Stove","protocol":"did:ixo:protocol/stoves","properties":{"name":"x","power":1e309}}',
        },
        { call: 'get_entity', args: { did: 'did:ixo:nobody' } },
      ],
    )
    expect(heard.map(({ failed }) => failed)).toEqual([true, true, true, true, true, true])
    expect(heard[0]!.content).toContain('did you mean \\"name\\"?')
    expect(heard[1]!.content).toContain(`${did} does not control did:ixo:foreign`)
    expect(heard[5]!.content).toContain('There is no entity did:ixo:nobody')
  })

  describe('and callers with a name', () => {
    it('change what they control, until they hand it over', async () => {
      const [amina, bo] = [await userWith(app, 'registry/*'), await userWith(app, 'registry/*')]
      const made = await amina.post('/v1/entities', {
        type: 'Stove',
        protocol: stoves.did,
        properties: { name: 'ours' },
      })
      expect(made).toMatchObject({ status: 201, body: { controller: amina.did } })
      const path = at(made.body.did)
      const patch = (who: typeof bo, body: object) => who.patch(path, body, { 'if-match': '*' })
      expect(await patch(bo, { properties: { power: 1 } })).toMatchObject({
        status: 403,
        body: { code: 'FORBIDDEN', details: { causes: [expect.stringContaining(amina.did)] } },
      })
      expect((await patch(amina, { controller: bo.did })).status).toBe(200)
      expect((await patch(amina, { properties: { power: 2 } })).status).toBe(403)
      expect((await amina.delete(path, { headers: { 'if-match': '*' } })).status).toBe(403)
      const edge = `${path}/relationships/operator/${encodeURIComponent('did:ixo:amina')}`
      expect((await amina.put(edge, {})).status).toBe(403)
      expect((await bo.put(edge, {})).status).toBe(201)
      expect((await amina.delete(edge)).status).toBe(403)
      expect((await patch(bo, { properties: { power: 3 } })).body).toMatchObject({
        controller: bo.did,
        properties: { power: 3 },
      })
      expect(
        (await app.patch(path, { controller: amina.did }, { ...asKey, 'if-match': '*' })).status,
      ).toBe(200)
      expect((await patch(bo, {})).status).toBe(403)
      const { items } = (await amina.get(`${path}/history`)).body
      const by = items.map(({ change }: { change: { by: string } }) => change.by)
      expect(by).toEqual([amina.did, amina.did, bo.did, bo.did, 'key:default'])
      expect((await amina.delete(path, { headers: { 'if-match': '*' } })).status).toBe(200)
    })

    it('change a protocol only if it is theirs', async () => {
      const [amina, bo] = [await userWith(app, 'registry/*'), await userWith(app, 'registry/*')]
      const { body } = await amina.post('/v1/protocols', { type: 'Protocol' })
      const path = `/v1/protocols/${encodeURIComponent(body.did)}`
      expect((await bo.put(path, { type: 'Protocol' })).status).toBe(403)
      expect((await bo.delete(path)).status).toBe(403)
      expect((await amina.put(path, { type: 'Protocol' })).status).toBe(200)
      expect((await amina.delete(path)).status).toBe(200)
    })
  })
})
