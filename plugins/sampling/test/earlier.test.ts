import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Database } from '#core'
import { testApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { audit } from '../cli.ts'
import sampling from '../index.ts'
import { migrations } from '../tables.ts'
import { answerOf, roundOf } from '../fixtures/published-rounds.ts'
import { callsOf, idsOf, keys, small, unchanged } from '../fixtures/world.ts'

const later = ['006-commitments', '007-audit-files', '008-frame-queries']
const earlier = Object.fromEntries(
  Object.entries(migrations).filter(([name]) => !later.includes(name)),
)
const quick = roundOf('quicknet', 1000)
const quicknet = 'drand:52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971'

/** The plugin with the tables that it had before. */
const asBefore = { ...sampling, definition: { ...sampling.definition, migrations: earlier } }

/** The columns that a version before the commitments of designs wrote; each revision had a commitment of its own. */
interface EarlierSelection {
  readonly revision: number
  readonly beacon: object
  readonly beaconHex: string | null
  readonly selected: object | null
}

await onEachDatabase('designs that an earlier version stored', ({ databaseUrl }) => {
  it('stay readable: the draws of every revision, each listed, and the proof of an old draw is added', async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'oracle-sampling-'))
    onTestFinished(() => rmSync(DATA_DIR, { recursive: true, force: true }))
    const env = { ...keys, DATA_DIR, ...(databaseUrl && { DATABASE_URL: databaseUrl }) }
    let db: Database | undefined
    const insider = definePlugin({
      name: 'insider',
      summary: 'Has the connection.',
      visibility: 'silent',
      setup: (boot) => void (db = boot.db),
    })
    const before = await testApp({ plugins: [asBefore, insider], env })
    const { made } = callsOf(before)
    const path = await made()
    const designId = path.split('/').at(-1) ?? ''
    const insert = async ({ revision, beacon, beaconHex, selected }: EarlierSelection) => {
      const values = [designId, revision, `frame-${revision}`, 'd'.repeat(64), '{"all":400}']
      const all = [...values, JSON.stringify(beacon), '2023-08-23T15:00:00.000Z', beaconHex]
      const drawn =
        selected === null ? [null, null] : ['2023-08-23T16:00:00.000Z', JSON.stringify(selected)]
      const cells = [...all, ...drawn].map((value) => sql`${value}`)
      await sql`insert into sampling_selections
        (design_id, revision, frame_id, frame_digest, frame_counts, beacon, committed_at, beacon_hex, selected_at, selected)
        values (${sql.join(cells)})`.execute(db!)
    }
    const ids = idsOf(20)
    const strata = [{ name: 'all', seed: 's', ids, reserves: [] }]
    // Earlier routes took a commitment for each revision, so the recalculation is stored by a server without the new table.
    await sql`update sampling_revisions set newest = 0 where design_id = ${designId}`.execute(db!)
    await sql`insert into sampling_revisions
      (design_id, revision, project_id, created_at, request, figures, outcome, verification, version, newest, made_by)
      select design_id, 2, project_id, created_at, request, figures, outcome, verification, 1, 1, made_by
      from sampling_revisions where design_id = ${designId}`.execute(db!)
    await insert({
      revision: 1,
      beacon: { source: 'caller', round: 1 },
      beaconHex: 'ab'.repeat(32),
      selected: { strata },
    })
    await insert({
      revision: 2,
      beacon: { source: quicknet, round: 1000 },
      beaconHex: quick.randomness,
      selected: { strata },
    })
    await before.close()

    await using after = await testApp({ plugins: [sampling], env })
    const now = callsOf(after)
    const record = await now.get(path)
    expect(record).toMatchObject({
      revision: 2,
      selection: { number: 2, revision: 2, verifiable: false },
      commitments: [
        { number: 1, revision: 1, source: 'caller', verifiable: false },
        { number: 2, revision: 2, source: quicknet, round: 1000, verifiable: false },
      ],
    })
    expect((await now.get(`${path}/selection?revision=1`)).strata).toEqual(strata)
    expect((await now.get(`${path}/selection`)).strata).toEqual(strata)
    // Two draws of one frame were possible then, and the audit says so.
    const found = audit(await now.get(`${path}/selection`), new Map([['all', ids]]))
    expect(found.join()).toContain('was committed 2 times')
    const proven = await now.post(`${path}/selection`, { published: answerOf(quick) })
    expect(proven).toMatchObject({
      status: 200,
      body: { verifiable: true, evidence: { signature: quick.signature } },
    })
    await now.post(`${path}/recalculate`, unchanged)
    expect(await now.get(path)).toMatchObject({ revision: 3, selection: { number: 2 } })
    expect((await now.get('/v1/sampling?projectId=did:ixo:entity:abc123')).items).toHaveLength(1)
    expect(small.projectId).toBe(record.projectId)
  })
})
