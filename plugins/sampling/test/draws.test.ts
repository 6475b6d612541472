import { beforeAll, expect, it, vi } from 'vitest'
import { testApp, type TestApp } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { audit } from '../cli.ts'
import sampling from '../index.ts'
import { ticketOf } from '../selection/sampler.ts'
import { answerOf, roundOf } from '../fixtures/published-rounds.ts'
import {
  callsOf,
  idsOf,
  keys,
  larger,
  small,
  smaller,
  timeOfRound,
  turnClock,
  unchanged,
} from '../fixtures/world.ts'

const ids = idsOf(400)
const frame = { all: ids }
const caller = { source: 'caller', round: 1 }
const beaconHex = 'ab'.repeat(32)
const quick = roundOf('quicknet', 1000)
const quicknet = { source: 'drand:quicknet', round: quick.round }

await onEachDatabase('a draw that nobody repeats until it suits', ({ databaseUrl }) => {
  let app: TestApp
  beforeAll(async () => {
    app = await testApp({
      plugins: [sampling],
      env: { ...keys, ...(databaseUrl && { DATABASE_URL: databaseUrl }) },
    })
    return () => app.close()
  })
  const calls = () => callsOf(app)

  it('four draws of one design: the second is refused, and so are the third and the fourth', async () => {
    const { post, get, made } = calls()
    const path = await made()
    const commit = (round: number) =>
      post(`${path}/selection/commit`, { frame, beacon: { source: 'caller', round } })
    expect(await commit(1)).toMatchObject({ status: 200, body: { number: 1, verifiable: false } })
    const first = await post(`${path}/selection`, { beaconHex })
    expect(first).toMatchObject({ status: 200, body: { verifiable: false } })
    for (const round of [2, 3, 4]) {
      await post(`${path}/recalculate`, unchanged)
      expect(await commit(round)).toMatchObject({
        status: 409,
        body: {
          message: expect.stringContaining('has its commitment already: number 1 of '),
          hint: expect.stringContaining('a size that has grown'),
          details: { number: 1, revision: 1 },
        },
      })
      expect(await post(`${path}/selection`, { beaconHex: `0${round}`.repeat(32) })).toMatchObject({
        status: 409,
        body: { message: expect.stringContaining('drawn already') },
      })
    }
    const now = await get(`${path}/selection`)
    expect(now.strata).toEqual(first.body.strata)
    expect(now.commitments).toMatchObject([{ number: 1, source: 'caller', verifiable: false }])
    expect(await get(path)).toMatchObject({
      revision: 4,
      selection: { number: 1, revision: 1, verifiable: false },
      commitments: [{ number: 1 }],
    })
  })

  it('growing the sample keeps every id, with the same seed and no other value', async () => {
    const { post, get, made } = calls()
    const path = await made()
    await post(`${path}/selection/commit`, { frame, beacon: caller })
    const { body: before } = await post(`${path}/selection`, { beaconHex })
    const { body: grown } = await post(`${path}/recalculate`, larger)
    expect(grown.change.direction).toBe('up')
    expect(grown).not.toHaveProperty('selection')
    expect(
      await app.get(`${path}/selection`, {
        headers: { authorization: 'Bearer a-key-for-this-test' },
      }),
    ).toMatchObject({
      status: 404,
      body: { hint: expect.stringContaining('keeps every id') },
    })
    const other = { frame, beacon: { source: 'caller', round: 2 } }
    expect(await post(`${path}/selection/commit`, other)).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('with the same seed') },
    })
    const moved = { frame: { all: [...ids.slice(1), 'stranger'] } }
    expect(await post(`${path}/selection/commit`, moved)).toMatchObject({ status: 400 })
    expect(await post(`${path}/selection/commit`, { frame })).toMatchObject({
      status: 200,
      body: { number: 2, extends: 1, source: 'caller', round: 1 },
    })
    const another = await post(`${path}/selection`, { beaconHex: 'cd'.repeat(32) })
    expect(another).toMatchObject({ status: 409 })
    const { body: after } = await post(`${path}/selection`, {})
    const [was] = before.strata
    const [is] = after.strata
    expect(is.seed).toBe(was.seed)
    expect(is.ids).toHaveLength(grown.parameters.adjustedSize)
    expect(is.ids.slice(0, was.ids.length)).toEqual(was.ids)
    expect([...was.ids, ...grown.change.idsToAdd[0].ids]).toEqual(is.ids)
    expect(audit(after, new Map([['all', ids]]))).toEqual([])
    expect((await get(`${path}/selection?revision=1`)).strata).toEqual(before.strata)
    // A third revision of the grown size draws nothing more.
    await post(`${path}/recalculate`, larger)
    expect(await post(`${path}/selection/commit`, { extend: true })).toMatchObject({ status: 409 })
  })

  it('shrinking is a prefix, and what is left out comes first among the reserves', async () => {
    const { post, get, made } = calls()
    const path = await made()
    await post(`${path}/selection/commit`, { frame, beacon: caller })
    const { body: before } = await post(`${path}/selection`, { beaconHex, reserves: 2 })
    const { body: shrunk } = await post(`${path}/recalculate`, smaller)
    const { adjustedSize } = shrunk.parameters
    const [was] = before.strata
    expect(adjustedSize).toBeLessThan(was.ids.length)
    const [is] = (await get(`${path}/selection`)).strata
    expect(is.ids).toEqual(was.ids.slice(0, adjustedSize))
    expect([...is.ids, ...is.reserves]).toEqual([...was.ids, ...was.reserves])
    expect(await post(`${path}/selection/commit`, { frame, beacon: caller })).toMatchObject({
      status: 409,
    })
    // Grown again, beyond the first size, the sample still begins with the first one.
    const { body: again } = await post(`${path}/recalculate`, larger)
    const added = again.change.idsToAdd[0].ids
    await post(`${path}/selection/commit`, { extend: true })
    const { body: largest } = await post(`${path}/selection`, {})
    expect([...is.ids, ...added]).toEqual(largest.strata[0].ids)
    expect(largest.strata[0].ids.slice(0, was.ids.length)).toEqual(was.ids)
  })

  it('a frame that has changed takes a new commitment; the record and the audit list both', async () => {
    const { post, get, made } = calls()
    const path = await made()
    await post(`${path}/selection/commit`, { frame, beacon: caller })
    await post(`${path}/selection`, { beaconHex })
    const later = idsOf(401)
    const second = { frame: { all: later }, beacon: { source: 'caller', round: 2 } }
    expect(await post(`${path}/selection/commit`, second)).toMatchObject({
      status: 200,
      body: { number: 2, revision: 1 },
    })
    // Back to the first frame: its draw is known, so there is no second one from it.
    expect(await post(`${path}/selection/commit`, { frame, beacon: caller })).toMatchObject({
      status: 409,
    })
    const { body } = await post(`${path}/selection`, { beaconHex: 'cd'.repeat(32) })
    expect(body.commitments.map(({ number }: { number: number }) => number)).toEqual([1, 2])
    expect((await get(path)).commitments).toEqual(body.commitments)
    expect(audit(body, new Map([['all', later]]))).toEqual([])
  })

  it('a frame that changes between commitment and draw: the digest says so', async () => {
    const { post, made } = calls()
    const path = await made()
    const { body: committed } = await post(`${path}/selection/commit`, { frame, beacon: caller })
    const changed = 'f'.repeat(64)
    expect(await post(`${path}/selection`, { beaconHex, frameDigest: changed })).toMatchObject({
      status: 409,
      body: {
        message:
          `The frame has changed since the commitment of ${committed.committedAt}: ` +
          `${committed.frameDigest} was committed, and it hashes to ${changed} now.`,
      },
    })
    const { frameDigest } = committed
    expect(await post(`${path}/selection`, { beaconHex, frameDigest })).toMatchObject({
      status: 200,
    })
  })

  it('the same ids in other strata are no new frame', async () => {
    const { post, made } = calls()
    const halves = [
      { name: 'urban', weight: 0.5 },
      { name: 'rural', weight: 0.5 },
    ]
    const path = await made({ ...small, stratification: { enabled: true, strata: halves } })
    const urban = ids.slice(0, 200)
    const rural = ids.slice(200)
    const commit = (frame: object) => post(`${path}/selection/commit`, { frame, beacon: caller })
    expect(await commit({ urban, rural })).toMatchObject({ status: 200 })
    expect(await commit({ urban: rural, rural: urban })).toMatchObject({ status: 409 })
    await post(`${path}/recalculate`, larger)
    expect(await commit({ urban: [...urban, rural[0]], rural: rural.slice(1) })).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('divided otherwise') },
    })
  })

  it('another design with the same ids is named, because many designs are many draws', async () => {
    const { post, get, made } = calls()
    const mine = idsOf(400, 'shared-')
    const [one, two] = [await made(), await made()]
    for (const path of [one, two])
      await post(`${path}/selection/commit`, { frame: { all: mine }, beacon: caller })
    expect((await get(`${two}/selection`)).sameFrame).toMatchObject([
      { designId: one.split('/').at(-1), number: 1 },
    ])
  })

  it('a round of drand: committed before it is out, verified when it is, drawn and audited', async () => {
    const { post, get, made } = calls()
    const time = timeOfRound(quick)
    turnClock(time - 60_000)
    const path = await made()
    const commit = (beacon: object) => post(`${path}/selection/commit`, { frame, beacon })
    const at = new Date(time).toISOString()
    expect(await commit({ source: 'drand:quicknet', at })).toMatchObject({
      status: 200,
      body: { round: 1000, publishedAt: at, verifiable: true },
    })
    const published = answerOf(quick)
    const reveal = (body: object) => post(`${path}/selection`, body)
    expect(await reveal({ published })).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('still to come') },
    })
    vi.setSystemTime(time + 1000)
    const refused = (message: string) => ({
      status: 400,
      body: { message: expect.stringContaining(message) },
    })
    expect(await reveal({})).toMatchObject(refused('give the answer of a drand relay'))
    expect(await reveal({ beaconHex: quick.randomness })).toMatchObject(refused('a drand relay'))
    expect(await reveal({ published: answerOf(roundOf('default', 1000)) })).toMatchObject(
      refused('a signature of the chain quicknet has 96 hexadecimal digits, not 192'),
    )
    const short = { ...published, signature: published.signature.slice(2) }
    expect(await reveal({ published: short })).toMatchObject(refused('not 94'))
    const other = { ...answerOf(roundOf('quicknet', 657_413)), round: 1000 }
    expect(await reveal({ published: other })).toMatchObject(refused('did not make it'))
    const { status, body } = await reveal({ published })
    expect({ status, body }).toMatchObject({
      status: 200,
      body: {
        beaconHex: quick.randomness,
        verifiable: true,
        evidence: { round: 1000, signature: quick.signature },
      },
    })
    const [all] = body.strata
    const order = ids.toSorted((a, b) => (ticketOf(all.seed, a) < ticketOf(all.seed, b) ? -1 : 1))
    expect(all.ids).toEqual(order.slice(0, all.ids.length))
    expect(audit(body, new Map([['all', ids]]))).toEqual([])
    expect((await get(path)).selection).toMatchObject({
      verifiable: true,
      selectedAt: expect.any(String),
    })
    for (const forged of [
      {
        ...body,
        evidence: { ...body.evidence, signature: roundOf('quicknet', 657_413).signature },
      },
      { ...body, round: 1001 },
      { ...body, commitments: [{ ...body.commitments[0], committedAt: at }] },
    ])
      expect(audit(forged, new Map([['all', ids]]))).not.toEqual([])
  })

  it('the chained rounds of the default chain seed a draw as well', async () => {
    const { post, made } = calls()
    const published = roundOf('default', 1337)
    turnClock(timeOfRound(published) - 1000)
    const path = await made()
    const beacon = { source: 'drand:default', round: 1337 }
    await post(`${path}/selection/commit`, { frame, beacon })
    vi.setSystemTime(timeOfRound(published))
    expect(await post(`${path}/selection`, { published: answerOf(published) })).toMatchObject({
      status: 200,
      body: { beaconHex: published.randomness, verifiable: true },
    })
  })

  it('the agent says that a draw of the caller’s own value proves nothing', async () => {
    const thread = app.thread().load('sampling')
    const { designId } = (await thread.call('design_sample', small)) as { designId: string }
    const committed = await thread.call('select_sample', { designId, frame, beacon: caller })
    const drawn = await thread.call('select_sample', { designId, beaconHex })
    for (const told of [committed, drawn])
      expect(told).toMatchObject({
        verifiable: false,
        summary: expect.stringContaining('"verifiable" is false'),
      })
  })

  it('the source of a beacon is said', async () => {
    const { post, made } = calls()
    const path = await made()
    for (const body of [
      { frame, beacon: { round: 1 } },
      { frame, round: 1 },
    ])
      expect(await post(`${path}/selection/commit`, body)).toMatchObject({
        status: 400,
        body: { message: expect.stringContaining('source') },
      })
    turnClock(timeOfRound(quick))
    expect(await post(`${path}/selection/commit`, { frame, beacon: quicknet })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('before the commitment') },
    })
  })
})
