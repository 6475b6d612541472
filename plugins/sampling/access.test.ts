import { beforeAll, expect, it } from 'vitest'
import { testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import sampling from './index.ts'
import { callers, complete, handedTo, supported } from './fixtures/complete.ts'
import { idsOf, small } from './fixtures/world.ts'
import { userWith } from '../../test/support/granted-user.ts'

const env = { API_KEY: 'a-key-for-this-test' }
const key = { authorization: `Bearer ${env.API_KEY}` }
const request = { ...small, projectId: 'did:ixo:entity:stoves', ...complete }
const actual = { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.1, ...supported }
const frame = { all: idsOf(400) }
const commitment = { frame, ...callers }
const beaconHex = 'ab'.repeat(32)

await onEachDatabase('whose design it is', ({ databaseUrl }) => {
  let app: TestApp
  let owner: TestUser
  let other: TestUser
  let reader: TestUser
  let stranger: TestUser
  let verifier: TestUser
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    owner = await userWith(app, 'sampling/write')
    other = await userWith(app, 'sampling/write')
    verifier = await userWith(app, 'sampling/write')
    reader = await userWith(app, 'sampling/read')
    stranger = await app.user()
    return () => app.close()
  })
  const made = async (by: { post: TestUser['post'] } = owner, headers = {}) => {
    const { status, body } = await by.post('/v1/sampling', request, headers)
    expect(status).toBe(201)
    return { design: body, path: `/v1/sampling/${body.designId}` }
  }
  /** The paths that read a design; `writes` has the paths that change it. */
  const reads = ['', '?revision=1', '/revisions', '/explanation', '/selection']
  const writes: [string, object][] = [
    ['/recalculate', actual],
    ['/selection/commit', commitment],
    ['/selection', { beaconHex }],
    ['/verification', { verifier: 'did:ixo:somebody', status: 'submitted' }],
  ]

  it('does not exist for a user without a grant: no route is open, and no tool tells of it', async () => {
    const { design, path } = await made()
    expect(design.createdBy).toBe(owner.did)
    const before = (await owner.get(path)).body
    for (const read of reads)
      expect(await stranger.get(path + read), read).toMatchObject({
        status: 403,
        body: { code: 'NOT_GRANTED', message: expect.not.stringContaining(owner.did) },
      })
    for (const [write, body] of writes)
      expect(await stranger.post(path + write, body), write).toMatchObject({
        status: 403,
        body: { code: 'NOT_GRANTED' },
      })
    const lines = { 'content-type': 'application/x-ndjson' }
    expect(
      await stranger.post(`${path}/selection/commit?round=1&source=caller`, '"h1"', lines),
    ).toMatchObject({
      status: 403,
    })
    const thread = app.thread({ did: stranger.did, grants: [] }).load('sampling')
    const { designId } = design
    for (const tool of ['get_sample_design', 'explain_sample'])
      await expect(thread.call(tool, { designId }), tool).rejects.toMatchObject({
        code: 'NOT_FOUND',
      })
    for (const [tool, args] of [
      ['design_sample', request],
      ['recalculate_sample', { designId, ...actual }],
      ['select_sample', { designId, ...commitment }],
      ['select_sample', { designId, beaconHex }],
    ] as const)
      await expect(thread.call(tool, args), tool).rejects.toMatchObject({
        code: 'NOT_GRANTED',
        message: expect.stringContaining('sampling/write'),
      })
    expect((await owner.get(path)).body).toEqual(before)
  })

  it('is read by whom the operator lets read, and changed by its maker alone', async () => {
    const { path } = await made()
    const before = (await owner.get(path)).body
    for (const read of reads.slice(0, 4)) {
      expect(await reader.get(path + read), read).toMatchObject({ status: 200 })
      expect(await other.get(path + read), read).toMatchObject({ status: 200 })
    }
    for (const [write, body] of writes) {
      expect(await reader.post(path + write, body), write).toMatchObject({
        status: 403,
        body: { code: 'NOT_GRANTED' },
      })
      expect(await other.post(path + write, body), write).toMatchObject({
        status: 403,
        body: { code: 'FORBIDDEN' },
      })
    }
    expect((await owner.get(path)).body).toEqual(before)
  })

  it('its maker and its verifier read it through the agent without a grant', async () => {
    const { design, path } = await made()
    await owner.post(`${path}/selection/commit`, commitment)
    await owner.post(`${path}/verification`, handedTo(verifier.did))
    for (const { did } of [owner, verifier]) {
      const thread = app.thread({ did, grants: [] }).load('sampling')
      expect(await thread.call('get_sample_design', { designId: design.designId })).toMatchObject({
        designId: design.designId,
      })
    }
  })

  it('is listed to whom may read it', async () => {
    const { design } = await made()
    const listed = async (by: TestUser) => {
      const { body } = await by.get(
        `/v1/sampling?limit=100&projectId=${encodeURIComponent(request.projectId)}`,
      )
      return body.items.some(({ designId }: typeof design) => designId === design.designId)
    }
    expect(await Promise.all([owner, reader, other].map(listed))).toEqual([true, true, true])
    expect(
      await stranger.get(`/v1/sampling?projectId=${encodeURIComponent(request.projectId)}`),
    ).toMatchObject({ status: 403, body: { code: 'NOT_GRANTED' } })
  })

  it('is open to the holder of the key, who keeps the books', async () => {
    const { path } = await made()
    for (const read of reads.slice(0, 4))
      expect(await app.get(path + read, { headers: key })).toMatchObject({ status: 200 })
    expect(await app.post(`${path}/recalculate`, actual, key)).toMatchObject({ status: 200 })
    expect(await owner.get(path)).toMatchObject({ body: { revision: 2, createdBy: owner.did } })
  })

  it('made with the key is read by whoever has its id, and changed with the key only', async () => {
    const { design, path } = await made(app, key)
    expect(design).not.toHaveProperty('createdBy')
    const { designId } = design
    const thread = app.thread({ did: stranger.did, grants: [] }).load('sampling')
    expect(await thread.call('get_sample_design', { designId })).toMatchObject({ designId })
    for (const [write, body] of writes)
      expect(await other.post(path + write, body), write).toMatchObject({
        status: 403,
        body: { code: 'FORBIDDEN', hint: expect.any(String) },
      })
    expect((await app.get(path, { headers: key })).body).toEqual(design)
  })

  it('is decided by the verifier whom the submission names, under their own DID', async () => {
    const { path } = await made()
    await owner.post(`${path}/selection/commit`, commitment)
    const decide = (by: TestUser, name: string, status = 'approved') =>
      by.post(`${path}/verification`, { ...handedTo(name), status })
    expect(await decide(owner, owner.did, 'submitted')).toMatchObject({
      status: 400,
      body: { details: [{ path: 'verifier' }], hint: 'Name an external verifier.' },
    })
    expect(await decide(owner, verifier.did, 'submitted')).toMatchObject({ status: 200 })
    expect(await decide(owner, verifier.did)).toMatchObject({ status: 403 })
    expect(await decide(owner, owner.did)).toMatchObject({ status: 403 })
    expect(await decide(other, other.did)).toMatchObject({ status: 403 })
    expect(await decide(verifier, owner.did)).toMatchObject({ status: 403 })
    const { body } = await decide(verifier, verifier.did)
    expect(body).toMatchObject({ final: true, verification: { verifier: verifier.did } })
    expect(
      body.verification.history.map((entry: { recordedBy: string }) => entry.recordedBy),
    ).toEqual([owner.did, verifier.did])
  })

  it('stays with its verifier over revisions, the earlier ones included', async () => {
    const { path } = await made()
    await owner.post(`${path}/recalculate`, actual)
    await owner.post(`${path}/selection/commit`, commitment)
    await owner.post(`${path}/verification`, handedTo(verifier.did))
    await owner.post(`${path}/recalculate`, actual)
    for (const revision of [1, 2, 3])
      expect(await verifier.get(`${path}?revision=${revision}`)).toMatchObject({
        status: 200,
        body: { revision },
      })
    expect(await verifier.post(`${path}/recalculate`, actual)).toMatchObject({ status: 403 })
    const approve = { verifier: verifier.did, status: 'approved' }
    expect(await verifier.post(`${path}/verification`, approve)).toMatchObject({ status: 409 })
  })

  it('is drawn by its maker or its verifier; an outside draw only by the verifier, in their own name', async () => {
    const { design, path } = await made()
    await owner.post(`${path}/selection/commit`, commitment)
    await owner.post(`${path}/verification`, handedTo(verifier.did))
    const drawn = (verifier: string) => ({
      external: {
        verifier,
        method: 'lottery',
        strata: { all: frame.all.slice(0, design.parameters.adjustedSize) },
      },
    })
    const selection = `${path}/selection`
    expect(await owner.post(selection, drawn(verifier.did))).toMatchObject({ status: 403 })
    expect(await owner.post(selection, drawn(owner.did))).toMatchObject({ status: 403 })
    expect(await verifier.post(selection, drawn(other.did))).toMatchObject({ status: 403 })
    expect(await verifier.post(selection, drawn(verifier.did))).toMatchObject({
      status: 200,
      body: { external: { verifier: verifier.did } },
    })

    const second = await made()
    await owner.post(`${second.path}/selection/commit`, commitment)
    await owner.post(`${second.path}/verification`, handedTo(verifier.did))
    expect(await verifier.post(`${second.path}/selection`, { beaconHex })).toMatchObject({
      status: 200,
    })
  })
})
