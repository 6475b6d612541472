import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type Database, definePlugin } from '#core'
import { testApp, type TestApp, type TestUser } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { userWith } from '../../test/support/granted-user.ts'
import sampling from './index.ts'
import { callers, complete, handedTo, supported } from './fixtures/complete.ts'
import { idsOf, small } from './fixtures/world.ts'

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
const keys = { API_KEY: 'amina:the-first-key,brian:the-second-key,carol:the-third-key' }
const [amina, brian, carol] = ['the-first-key', 'the-second-key', 'the-third-key'].map(bearer)
const request = { ...small, projectId: 'did:ixo:entity:stoves', ...complete }
const actual = { actualMean: 0.8, actualSD: 0.2, actualDropoutRate: 0.1, ...supported }
const frame = { all: idsOf(400) }
const beaconHex = 'ab'.repeat(32)
const outside = 'did:ixo:verifier'

/** Sends POST requests to a design as a user or with an API key. */
type Post = (path: string, body: unknown) => ReturnType<TestUser['post']>
const withKey =
  (app: TestApp, headers = {}): Post =>
  (path, body) =>
    app.post(path, body, headers)

async function submitted(by: Post, verifier = outside, submit = by): Promise<string> {
  const { status, body } = await by('/v1/sampling', request)
  expect(status).toBe(201)
  const path = `/v1/sampling/${body.designId}`
  await by(`${path}/selection/commit`, { frame, ...callers })
  const laid = await submit(`${path}/verification`, handedTo(verifier))
  expect(laid).toMatchObject({ status: 200 })
  return path
}

const decide = (by: Post, path: string, verifier = outside, status = 'approved') =>
  by(`${path}/verification`, { verifier, status })
const refusal = { status: 403, body: { code: 'FORBIDDEN', hint: expect.any(String) } }

await onEachDatabase('four eyes on a design', ({ databaseUrl }) => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...keys, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    return () => app.close()
  })

  it('the key that made it decides nothing, a key of another name does', async () => {
    const path = await submitted(withKey(app, amina))
    for (const status of ['approved', 'rejected'])
      expect(await decide(withKey(app, amina), path, outside, status)).toMatchObject({
        ...refusal,
        body: {
          message: expect.stringContaining('key:amina'),
          hint: expect.stringContaining('DID'),
        },
      })
    expect(await app.get(path, { headers: amina })).toMatchObject({ body: { final: false } })
    const { body } = await decide(withKey(app, brian), path)
    expect(body).toMatchObject({ final: true })
    const history: { recordedBy: string }[] = body.verification.history
    expect(history.map(({ recordedBy }) => recordedBy)).toEqual(['key:amina', 'key:brian'])
  })

  it('nor does whoever worked out any of its revisions', async () => {
    const [one, two] = [withKey(app, amina), withKey(app, brian)]
    const path = await submitted(one)
    await two(`${path}/recalculate`, actual)
    await two(`${path}/selection/commit`, { extend: true })
    await withKey(app, carol)(`${path}/verification`, handedTo(outside))
    expect(await decide(one, path)).toMatchObject(refusal)
    expect(await decide(two, path)).toMatchObject(refusal)
    expect(await decide(withKey(app, carol), path)).toMatchObject({ status: 200 })
  })

  it('nor who committed the frame, nor who drew from it', async () => {
    const { body } = await withKey(app, amina)('/v1/sampling', request)
    const path = `/v1/sampling/${body.designId}`
    await withKey(app, brian)(`${path}/selection/commit`, { frame, ...callers })
    await withKey(app, amina)(`${path}/verification`, handedTo(outside))
    expect(await decide(withKey(app, brian), path)).toMatchObject(refusal)
    const drawn = await withKey(app, carol)(`${path}/selection`, { beaconHex })
    expect(drawn).toMatchObject({ status: 200 })
    expect(await decide(withKey(app, carol), path)).toMatchObject(refusal)
  })

  it('a verifier who draws, or whose outside draw somebody records, still decides', async () => {
    const verifier = await userWith(app, 'sampling/write')
    const path = await submitted(withKey(app, amina), verifier.did)
    expect(await verifier.post(`${path}/selection`, { beaconHex })).toMatchObject({ status: 200 })
    expect(await decide(verifier.post, path, verifier.did)).toMatchObject({ status: 200 })

    const other = await submitted(withKey(app, amina))
    const external = { verifier: outside, method: 'lottery', strata: frame }
    const recorded = await withKey(app, brian)(`${other}/selection`, { external })
    expect(recorded).toMatchObject({ status: 200 })
    expect(await decide(withKey(app, brian), other)).toMatchObject({ status: 200 })
  })

  it('a DID that made a revision is no verifier of it, in whosever words', async () => {
    const owner = await userWith(app, 'sampling/write')
    const path = await submitted(owner.post)
    expect(await decide(owner.post, path)).toMatchObject({ status: 403 })
    expect(await decide(owner.post, path, owner.did)).toMatchObject({ status: 403 })
    expect(await decide(withKey(app, amina), path, owner.did)).toMatchObject({
      status: 400,
      body: { hint: 'Name an external verifier.' },
    })
    expect(await decide(withKey(app, amina), path)).toMatchObject({ status: 200 })
  })

  it('what was made through the agent counts like what was made by a route', async () => {
    const owner = await userWith(app, 'sampling/write')
    const thread = app.thread({ did: owner.did }).load('sampling')
    const { designId } = (await thread.call('design_sample', request)) as { designId: string }
    await thread.call('select_sample', { designId, frame, ...callers })
    await thread.call('select_sample', { designId, beaconHex })
    const path = `/v1/sampling/${designId}`
    for (const verifier of [owner.did, outside])
      await owner.post(`${path}/verification`, handedTo(verifier))
    expect(await decide(owner.post, path, owner.did)).toMatchObject({ status: 403 })
    expect(await decide(owner.post, path)).toMatchObject({ status: 403 })
    expect(await owner.get(path)).toMatchObject({ body: { final: false } })
  })

  it('says first what the state of the design forbids', async () => {
    const { body } = await withKey(app, amina)('/v1/sampling', request)
    expect(await decide(withKey(app, amina), `/v1/sampling/${body.designId}`)).toMatchObject({
      status: 409,
    })
  })
})

describe('with one key that has no name', () => {
  it('the verifier is a DID of its own', async () => {
    await using app = await testApp({ plugins: [sampling], env: { API_KEY: 'the-only-key' } })
    const key = withKey(app, bearer('the-only-key'))
    const verifier = await userWith(app, 'sampling/write')
    const path = await submitted(key, verifier.did)
    expect(await decide(key, path, verifier.did)).toMatchObject({
      ...refusal,
      body: { message: expect.stringContaining('key:default') },
    })
    expect(await decide(verifier.post, path, verifier.did)).toMatchObject({
      status: 200,
      body: { final: true, verification: { verifier: verifier.did } },
    })
  })
})

it('a design of before, made with a key that nobody wrote down, is decided by a DID alone', async () => {
  const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-sampling-'))
  onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
  let db: Database | undefined
  const insider = definePlugin({
    name: 'insider',
    summary: 'Has the connection.',
    visibility: 'silent',
    setup: (boot) => void (db = boot.db),
  })
  const start = () => testApp({ plugins: [sampling, insider], env: { ...keys, DATA_DIR } })
  const before = await start()
  const verifier = await userWith(before, 'sampling/write')
  const path = await submitted(withKey(before, amina), verifier.did)
  const users = await submitted((await userWith(before, 'sampling/write')).post)
  for (const statement of [
    'alter table sampling_revisions drop column made_by',
    'alter table sampling_selections drop column committed_by',
    'alter table sampling_selections drop column drawn_by',
    'drop table sampling_audit_files',
    'drop table sampling_frame_queries',
    "delete from sampling_migrations where name >= '005'",
  ])
    await sql.raw(statement).execute(db!)
  await before.close()

  await using after = await start()
  for (const key of [amina, brian])
    expect(await decide(withKey(after, key), path, verifier.did)).toMatchObject(refusal)
  const headers = await verifier.wallet.headers(after.oracleDid)
  expect(await decide(withKey(after, headers), path, verifier.did)).toMatchObject({ status: 200 })
  expect(await decide(withKey(after, brian), users)).toMatchObject({ status: 200 })
})
