import { beforeAll, describe, expect, it } from 'vitest'
import type { TestUser } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { userWith } from '../../../test/support/granted-user.ts'
import { asVerifier, registryApp } from '../../../test/support/registry.ts'

const dids = (list: readonly { did: string }[]) => list.map(({ did }) => did).sort()

await onEachDatabase('what somebody reads', (where) => {
  const app = registryApp(where)
  let owner: TestUser
  let mine: string
  let pointing: string
  let hidden: string
  let own: { claim: string; credential: string }
  let foreign: { claim: string; credential: string }
  beforeAll(async () => {
    owner = await app.app.user()
    mine = (await app.entity({ controller: owner.did, properties: { name: 'mine' } })).did
    hidden = (await app.entity({ properties: { name: 'hidden' } })).did
    pointing = (
      await app.entity({
        relationships: [
          { role: 'near', target: mine },
          { role: 'near', target: hidden },
        ],
      })
    ).did
    await app.put(app.at(mine, `/relationships/near/${hidden}`), {})
    own = await approved(mine)
    foreign = await approved(hidden)
  })

  async function approved(subject: string) {
    const { id } = (await app.post('/v1/claims', { subject, type: 'Use', properties: {} })).body
    const path = `/v1/claims/${id}/evaluation`
    const { body } = await app.post(path, { status: 'approved' }, asVerifier)
    return { claim: id as string, credential: body.credential as string }
  }
  const paths = () => [
    '/v1/entities',
    app.at(mine),
    app.at(hidden),
    app.at('did:ixo:none'),
    app.at(mine, '/graph'),
    app.at(mine, '/history'),
    '/v1/events',
    '/v1/protocols',
    `/v1/protocols/${app.open}`,
    '/v1/claims',
    `/v1/claims/${own.claim}`,
    '/v1/credentials',
    `/v1/credentials/${own.credential}`,
  ]

  it('is nothing where nothing is theirs and nothing was granted: 403 for what is there and what is not', async () => {
    const stranger = await app.app.user()
    for (const path of paths())
      expect(await stranger.get(path), path).toMatchObject({
        status: 403,
        body: { code: 'NOT_GRANTED', details: { ability: 'registry/read' } },
      })
  })

  it('is everything with registry/read, and that opens no write', async () => {
    const reader = await userWith(app.app, 'registry/read')
    for (const path of paths().filter((path) => path !== '/v1/events'))
      expect((await reader.get(path)).status, path).toBe(path.endsWith('none') ? 404 : 200)
    expect((await reader.post('/v1/entities', {})).status).toBe(403)
  })

  describe('without a grant', () => {
    it('is what they control and what relates to it', async () => {
      const { status, body } = await owner.get('/v1/entities')
      expect(status).toBe(200)
      expect(dids(body.items)).toEqual([mine, pointing].sort())
      expect((await owner.get('/v1/entities?q=hidden')).body.items).toEqual([])
      expect((await owner.get('/v1/entities?property.name=mine')).body.items).toHaveLength(1)
      expect((await owner.get(app.at(mine))).body.properties).toEqual({ name: 'mine' })
      expect((await owner.get(app.at(pointing))).status).toBe(200)
      expect((await owner.get(app.at(mine, '/history'))).body.items).toHaveLength(2)
    })

    it('is not the rest, which is answered as if it were not there', async () => {
      const absent = 'did:ixo:entity:00000000000000000000000000000000'
      for (const rest of ['', '/graph', '/history']) {
        const [there, none] = [
          await owner.get(app.at(hidden, rest)),
          await owner.get(app.at(absent, rest)),
        ]
        expect(there.status).toBe(404)
        const told = ({ body }: typeof there) => ({
          ...body,
          requestId: '',
          message: body.message.replace(hidden, absent),
        })
        expect(told(there)).toEqual(told(none))
      }
      expect((await owner.get(`/v1/claims/${foreign.claim}`)).status).toBe(404)
      expect((await owner.get(`/v1/credentials/${foreign.credential}`)).status).toBe(404)
    })

    it('is the graph as far as it is theirs to see, and not that there is more', async () => {
      const walk = async (query: string) => (await owner.get(app.at(mine, `/graph?${query}`))).body
      const graph = await walk('depth=5&direction=both')
      expect(dids(graph.nodes)).toEqual([mine, pointing].sort())
      expect(graph.edges).toEqual([{ from: pointing, role: 'near', to: mine }])
      expect((await walk('depth=11&direction=both')).truncated).toBe(false)
    })

    it('are the claims and the credentials of their assets, and the protocols these follow', async () => {
      const ids = async (path: string) =>
        (await owner.get(path)).body.items.map(({ id }: { id: string }) => id)
      expect(await ids('/v1/claims')).toEqual([own.claim])
      expect(await ids('/v1/credentials')).toEqual([`urn:uuid:${own.credential}`])
      expect((await owner.get(`/v1/claims/${own.claim}`)).status).toBe(200)
      await app.protocol({ type: 'Protocol' })
      expect(dids((await owner.get('/v1/protocols')).body.items)).toEqual([app.open])
    })

    it('are the changes of what is theirs', async () => {
      const leave = new AbortController()
      const headers = await owner.wallet.headers(app.oracleDid)
      const answer = await fetch(`${app.url}/v1/events?after=0`, { headers, signal: leave.signal })
      let text = ''
      for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream()))
        if ((text += chunk).includes('claim.approved')) break
      leave.abort()
      expect(text).toContain(mine)
      const told = [...text.matchAll(/"did":"([^"]+)"/g)].map(([, did]) => did)
      expect(told).not.toContain(hidden)
      expect(told).not.toContain(foreign.claim)
    })

    it('is the same for the tools of their agent', async () => {
      const thread = app.app.thread({ did: owner.did, grants: [] }).load('registry')
      const found = async (name: string, args: object): Promise<any> => thread.call(name, args) // any: the tests read members of the result
      expect(dids((await found('find_entities', {})).items)).toEqual([mine, pointing].sort())
      expect((await found('get_entity', { did: mine })).did).toBe(mine)
      await expect(found('get_entity', { did: hidden })).rejects.toMatchObject({ status: 404 })
      await expect(found('traverse_entities', { did: hidden })).rejects.toMatchObject({
        status: 404,
      })
      expect((await found('find_claims', {})).items).toHaveLength(1)
      expect(dids((await found('describe_protocol', {})).items)).toEqual([app.open])
      const nobody = app.app.thread({ grants: [] }).load('registry')
      expect(await nobody.call('find_entities', {})).toEqual({ items: [] })
    })

    it('is no reason to write', async () => {
      const thread = app.app.thread({ did: owner.did, grants: ['registry/read'] }).load('registry')
      const twin = { type: 'Thing', protocol: app.open, properties: {} }
      for (const [name, args] of [
        ['create_entity', twin],
        ['relate_entities', { did: mine, role: 'a', target: mine }],
        ['submit_claim', { subject: mine, type: 'Use', properties: {} }],
        ['evaluate_claim', { claim: own.claim, status: 'approved' }],
      ] as const)
        await expect(thread.call(name, args), name).rejects.toMatchObject({ status: 403 })
      expect((await owner.post('/v1/entities', twin)).status).toBe(403)
    })
  })
})

await onEachDatabase('a public registry', (where) => {
  const app = registryApp(where, { REGISTRY_READ: 'public' })

  it('is read by everybody who may call, and written by nobody else than before', async () => {
    const { did } = await app.entity()
    const stranger = await app.app.user()
    expect((await stranger.get(app.at(did))).status).toBe(200)
    expect(dids((await stranger.get('/v1/entities')).body.items)).toContain(did)
    const thread = app.app.thread({ grants: [] }).load('registry')
    expect(await thread.call('get_entity', { did })).toMatchObject({ did })
    expect((await app.app.get(app.at(did))).status).toBe(401)
    const twin = { type: 'Thing', protocol: app.open, properties: {} }
    expect((await stranger.post('/v1/entities', twin)).status).toBe(403)
  })
})
