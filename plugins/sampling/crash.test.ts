import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeAll, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { startServer } from '../../test/support/process.ts'
import { storeOf } from '../../test/support/store-of.ts'
import { audit } from './cli.ts'
import sampling from './index.ts'
import { Selections } from './selection/selections.ts'
import { withSamplingTables } from './tables.ts'

const env = { API_KEY: 'a-key-for-this-test' }
const headers = { authorization: `Bearer ${env.API_KEY}` }
const request = {
  projectId: 'did:ixo:entity:stoves',
  population: 1_000_000,
  confidence: 0.95,
  precision: 0.05,
  expectedMean: 1,
  expectedSD: 1,
  dropoutRate: 0,
}

await onEachDatabase('a server that dies while it writes a frame', ({ databaseUrl }) => {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'oracle-crash-'))
    return () => rmSync(folder, { recursive: true, force: true })
  })
  const boot = async () => {
    const server = startServer('server.ts', {
      ...env,
      DATA_DIR: folder,
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
    })
    const url = await server.url
    const call = async (method: string, path: string, body?: unknown) => {
      const response = await fetch(url + path, {
        method,
        headers: { ...headers, 'content-type': 'application/json' },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      return { status: response.status, body: (await response.json()) as any } // any: the tests read members of the answer
    }
    const upload = (designId: string, count: number) =>
      fetch(`${url}/v1/sampling/${designId}/selection/commit?round=1&source=caller`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/x-ndjson' },
        body: Array.from({ length: count / 1000 }, (_, line) =>
          JSON.stringify({ ids: Array.from({ length: 1000 }, (_, n) => `h${line * 1000 + n}`) }),
        ).join('\n'),
      })
    return { server, call, upload }
  }
  const store = () => storeOf(folder, { databaseUrl })

  it('leaves no commitment, and parts that are swept when nobody can be writing them any more', async () => {
    const first = await boot()
    const design = async () => (await first.call('POST', '/v1/sampling', request)).body.designId
    const whole = await design()
    expect((await first.upload(whole, 10_000)).status).toBe(200)
    const broken = await design()
    const answer = first.upload(broken, 1_000_000).then(
      ({ status }) => status,
      () => 'cut off',
    )
    // Writing a million ids takes some hundred milliseconds, during which the test kills the server.
    const watching = await store()
    const written = () =>
      withSamplingTables(watching.db).selectFrom('sampling_uploads').selectAll().execute()
    while ((await written()).length === 0) await pause(1)
    await first.server.end('SIGKILL')
    expect(await answer).toBe('cut off')
    await watching.close()

    const { db, close } = await store()
    const tables = withSamplingTables(db)
    const left = async () =>
      (
        await tables
          .selectFrom('sampling_frames')
          .select('frame_id')
          .distinct()
          .where('frame_id', 'not in', (query) =>
            query.selectFrom('sampling_selections').select('frame_id'),
          )
          .execute()
      ).length + (await tables.selectFrom('sampling_uploads').selectAll().execute()).length
    expect(await left()).toBeGreaterThan(0)
    expect(await new Selections(tables).sweep()).toBe(0)
    expect(await new Selections(tables, () => Date.now() + 3_600_000).sweep()).toBe(1)
    expect(await left()).toBe(0)
    await close()

    const second = await boot()
    try {
      expect((await second.call('GET', `/v1/sampling/${broken}/selection`)).status).toBe(404)
      expect((await second.upload(broken, 10_000)).status).toBe(200)
      for (const designId of [whole, broken]) {
        const { body } = await second.call('POST', `/v1/sampling/${designId}/selection`, {
          beaconHex: '01'.repeat(16),
        })
        expect(body.strata[0].ids).toHaveLength(1535)
      }
    } finally {
      await second.server.end()
    }
  }, 60_000)
})

await onEachDatabase('a hundred recalculations of one design at once', ({ databaseUrl }) => {
  it('make a hundred revisions without a gap, each from the one before it', async () => {
    const where = databaseUrl ? { DATABASE_URL: databaseUrl } : {}
    const apps = await Promise.all(
      // Two servers can share a PostgreSQL database, but not a SQLite file.
      (databaseUrl ? [1, 2] : [1]).map(() =>
        testApp({ plugins: [sampling], env: { ...env, ...where } }),
      ),
    )
    try {
      const { body: design } = await apps[0]!.post('/v1/sampling', request, headers)
      const path = `/v1/sampling/${design.designId}`
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, n) =>
          apps[n % apps.length]!.post(
            `${path}/recalculate`,
            { actualMean: 1, actualSD: 1 + n / 100, actualDropoutRate: 0 },
            headers,
          ),
        ),
      )
      expect(answers.map(({ status }) => status)).toEqual(Array(100).fill(200))
      const { body } = await apps[0]!.get(`${path}/revisions`, { headers })
      expect(body.items.map((item: typeof design) => item.revision)).toEqual(
        Array.from({ length: 101 }, (_, n) => n + 1),
      )
      expect(
        body.items
          .slice(1)
          .map((item: typeof design) => item.parameters.expectedSD)
          .toSorted(),
      ).toEqual(Array.from({ length: 100 }, (_, n) => 1 + n / 100))
      for (const [index, item] of body.items.entries())
        if (index > 0)
          expect(item.change.previousAdjustedSize).toBe(
            body.items[index - 1].parameters.adjustedSize,
          )
      const byRevision = new Map(body.items.map((item: typeof design) => [item.revision, item]))
      for (const answer of answers)
        expect(answer.body).toEqual(byRevision.get(answer.body.revision))
    } finally {
      await Promise.all(apps.map((app) => app.close()))
    }
  }, 60_000)
})

await onEachDatabase('commitments and draws at once', ({ databaseUrl }) => {
  it('one of each is kept, the others are told so, and leave nothing', async () => {
    await using app = await testApp({
      plugins: [sampling],
      env: { ...env, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    const small = { ...request, population: 60, expectedSD: 0.1 }
    const { body: design } = await app.post('/v1/sampling', small, headers)
    const path = `/v1/sampling/${design.designId}/selection`
    const ids = Array.from({ length: 60 }, (_, n) => `h${n}`)
    const statuses = async (to: string, bodies: object[]) => {
      const answers = await Promise.all(bodies.map((body) => app.post(to, body, headers)))
      return answers.map(({ status }) => status).toSorted()
    }
    const rounds = [1, 2, 3, 4, 5, 6, 7, 8]
    expect(
      await statuses(
        `${path}/commit`,
        rounds.map((round) => ({ frame: { all: ids }, beacon: { source: 'caller', round } })),
      ),
    ).toEqual([200, ...Array(7).fill(409)])
    expect(
      await statuses(
        path,
        rounds.map((round) => ({ beaconHex: `0${round}`.repeat(8) })),
      ),
    ).toEqual([200, ...Array(7).fill(409)])

    // The stored selection is the one that was answered, and an auditor who draws again gets the same sample.
    const { body } = await app.get(path, { headers })
    expect(body.strata[0].seed).toContain(`|${body.frameDigest}|${body.beaconHex}`)
    expect(audit(body, new Map([['all', ids]]))).toEqual([])
    if (databaseUrl === undefined) return
    const { db, close } = await storeOf('', { databaseUrl })
    const frames = await withSamplingTables(db)
      .selectFrom('sampling_frames')
      .select('frame_id')
      .distinct()
      .where('frame_id', 'not in', (query) =>
        query.selectFrom('sampling_selections').select('frame_id'),
      )
      .execute()
    expect(frames).toEqual([])
    await close()
  })
})
