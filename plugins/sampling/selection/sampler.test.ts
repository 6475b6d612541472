import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { mustBePublished, mustLieAhead } from './beacon.ts'
import { audit } from '../cli.ts'
import { frameOf } from './frame-lines.ts'
import { Frame } from './frame.ts'
import { loopTurns } from '../../../test/support/loop-turns.ts'
import { random } from '../../../test/support/random.ts'
import { sampler, seedOf, ticketOf } from './sampler.ts'

const draw = (seed: string, take: number, ids: Iterable<string>) => {
  const drawing = sampler(seed, take)
  for (const id of ids) drawing.offer(id)
  return drawing.drawn()
}
const freeze = (strata: Record<string, string[]>) => {
  const frame = Frame.of(Object.entries(strata))
  const parts = [...frame.parts()]
  return { digest: frame.digest(), counts: Object.fromEntries(frame.counts), parts }
}
const upTo = (count: number) => Array.from({ length: count }, (_, n) => String(n))

describe('Rivest’s consistent_sampler, its published examples', () => {
  it('first_fraction: the ticket of AB-130', () => {
    expect(ticketOf('01382438112797316654', 'AB-130')).toBe(
      '0.26299714122838008416507544297546663599715395525154425586041245287750224561854',
    )
  })

  it('make_ticket_heap: dog, cat, fish and goat', () => {
    const seed = 'xy()134!g2n'
    expect(['cat', 'dog', 'fish', 'goat'].map((id) => ticketOf(seed, id))).toEqual([
      '0.24866413894129579898796850445568128508290132707747976039848637531569373309555',
      '0.33886035615681875183111698317327684455682722683976874746986356932751818935066',
      '0.74685932088827950509145941729789143204056041958068799542050396198792954500593',
      '0.49599842072022713663423753308080171636735689997237236247068925068573448764387',
    ])
  })

  it('usage examples 1, 2, 4, 5 and 6: shuffles, another seed, ten of a hundred, their tickets', () => {
    expect(draw('31', 4, ['a', 'b', 'c', 'd'])).toEqual(['b', 'a', 'd', 'c'])
    expect(draw('77', 4, ['a', 'b', 'c', 'd'])).toEqual(['b', 'd', 'c', 'a'])
    const ten = ['73', '51', '17', '58', '38', '42', '39', '20', '11', '67']
    expect(draw('41', 10, upTo(100))).toEqual(ten)
    expect(draw('41', 5, upTo(100))).toEqual(ten.slice(0, 5))
    expect(ten.slice(0, 5).map((id) => ticketOf('41', id).slice(0, 11))).toEqual([
      '0.000508333',
      '0.003446232',
      '0.004419823',
      '0.020115273',
      '0.023482375',
    ])
  })

  it('test_sampler, X1 to X4: six, three of them, and the B items only', () => {
    const items = ['A-1', 'A-2', 'A-3', 'B-1', 'B-2', 'B-3']
    const order = ['B-2', 'B-3', 'A-3', 'A-2', 'B-1', 'A-1']
    expect(draw('314159', 6, items)).toEqual(order)
    expect(draw('314159', 3, items)).toEqual(order.slice(0, 3))
    expect(draw('314159', 3, items.slice(3))).toEqual(['B-2', 'B-3', 'B-1'])
    expect(ticketOf('314159', 'A-1')).toMatch(/^0\.9828515724/)
    expect(ticketOf('314159', 'B-2')).toMatch(/^0\.410310858/)
  })
})

describe('for any list', () => {
  const any = random('lists')
  const ids = upTo(3000).map((n) => `household-${n}-é`)

  it('a larger sample contains the smaller, in the same order', () => {
    const larger = draw('seed', 500, ids)
    for (const take of [0, 1, 2, 50, 499])
      expect(draw('seed', take, ids)).toEqual(larger.slice(0, take))
    expect(draw('seed', 5000, ids)).toHaveLength(3000)
  })

  it('another order changes nothing, nor does the frame’s digest', () => {
    const shuffled = ids.toSorted((a, b) =>
      ticketOf('shuffle', a) < ticketOf('shuffle', b) ? -1 : 1,
    )
    expect(draw('seed', 100, shuffled)).toEqual(draw('seed', 100, ids))
    const digest = (list: string[]) => freeze({ all: list }).digest
    expect(digest(shuffled)).toBe(digest(ids))
  })

  it('removing one moves no other', () => {
    for (let round = 0; round < 20; round++) {
      const gone = ids[any.integer(0, ids.length - 1)]
      const before = draw('seed', 200, ids)
      const after = draw(
        'seed',
        200,
        ids.filter((id) => id !== gone),
      )
      const stayed = before.filter((id) => id !== gone)
      expect(after.slice(0, stayed.length)).toEqual(stayed)
    }
  })
})

describe('a frame', () => {
  it('is hashed sorted by bytes, joined by line feeds, over all strata', () => {
    // Sorted by UTF-16 code units, the emoji would come before the full-width letter.
    const sorted = ['B', 'a', 'é', '\uff21', '\u{1f600}']
    expect(freeze({ one: ['\u{1f600}', 'a', '\uff21'], two: ['é', 'B'] })).toEqual({
      digest: createHash('sha256').update(sorted.join('\n')).digest('hex'),
      counts: { one: 3, two: 2 },
      parts: [
        { stratum: 'two', part: 0, ids: 'B\né' },
        { stratum: 'one', part: 0, ids: 'a\n\uff21\n\u{1f600}' },
      ],
    })
    expect(() => freeze({ a: ['x'], b: ['y', 'x'] })).toThrow('"x" stands in the frame twice')
  })

  it('of many runs merges to what sorting at once gives, also when the order changes on the way', () => {
    const ids = upTo(90_000).map((n) => ticketOf('names', n).slice(2, 14))
    for (const late of [[], ['\u{1f600}', '\uff21']]) {
      const whole = [...ids, ...late]
      const { digest, parts } = freeze({
        b: whole.filter((_, n) => n % 3),
        a: whole.filter((_, n) => n % 3 === 0),
      })
      const sorted = whole.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
      expect(digest).toBe(createHash('sha256').update(sorted.join('\n')).digest('hex'))
      const members = new Set(
        parts.filter(({ stratum }) => stratum === 'a').flatMap(({ ids }) => ids.split('\n')),
      )
      expect(members.size).toBe(Math.ceil(whole.length / 3))
    }
  })
})

describe('a beacon with a clock', () => {
  const quicknet = 'drand:52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971'
  const genesis = 1_692_803_367_000
  const beacon = { source: quicknet, round: 11 }
  const hex = 'ab'.repeat(32)

  it('knows when rounds are: quicknet’s 27,946,612 at 2026-04-20T00:00:00Z, as drand’s clients say, and both first ones', () => {
    const chain = (hash: string) => `drand:${hash}`
    const first = chain('8990e7a9aaed2ffed73dbd7092123d6f289930540d7651336225dc172e51b2ce')
    for (const [source, round, at] of [
      [quicknet, 27_946_612, Date.UTC(2026, 3, 20)],
      [quicknet, 1, 1_692_803_367_000],
      [first, 1, 1_595_431_050_000],
      [first, 2, 1_595_431_080_000],
    ] as const) {
      expect(() => mustLieAhead({ source, round }, at - 1)).not.toThrow()
      expect(() => mustLieAhead({ source, round }, at)).toThrow(new Date(at).toISOString())
    }
  })

  it('must lie ahead at the commitment and behind at the reveal', () => {
    expect(() => mustLieAhead(beacon, genesis + 29_999)).not.toThrow()
    expect(() => mustLieAhead(beacon, genesis + 30_000)).toThrow('before the commitment')
    expect(() => mustBePublished(beacon, hex, genesis + 29_999)).toThrow('still to come')
    expect(() => mustBePublished(beacon, hex, genesis + 30_000)).not.toThrow()
    expect(() => mustBePublished(beacon, 'ab', genesis + 30_000)).toThrow('64 digits')
    expect(() => mustLieAhead({ source: 'caller', round: 'any' }, genesis)).not.toThrow()
    expect(() => mustLieAhead({ source: `drand:${'0'.repeat(64)}`, round: 1 }, 0)).toThrow(
      'not known',
    )
    expect(() => mustLieAhead({ source: quicknet, round: 'soon' }, 0)).toThrow('number of a round')
  })
})

describe('an audit', () => {
  const cli = join(import.meta.dirname, '../cli.ts')
  const ids = upTo(50)
  const frozen = freeze({ all: ids })
  const claims = { designId: 'd', frameDigest: frozen.digest, beaconHex: 'ab'.repeat(8) }
  const seed = seedOf({ ...claims, stratum: 'all' })
  const drawn = draw(seed, 7, ids)
  const selection = {
    ...claims,
    revision: 1,
    committedAt: '',
    source: 'caller',
    round: 1,
    counts: { all: 50 },
    strata: [{ name: 'all', seed, ids: drawn.slice(0, 5), reserves: drawn.slice(5) }],
  }
  const frame = (list: string[]) => new Map([['all', [...list]]])

  it('agrees with an honest selection', () => {
    expect(audit(selection, frame(ids))).toEqual([])
  })

  it('runs from the command line, on files alone', () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-audit-'))
    const run = (selection: object, list: string[]) => {
      writeFileSync(join(folder, 'selection.json'), JSON.stringify(selection))
      writeFileSync(join(folder, 'ids.txt'), list.join('\n'))
      const { status, stdout } = spawnSync(
        process.execPath,
        [cli, join(folder, 'selection.json'), join(folder, 'ids.txt')],
        { encoding: 'utf8' },
      )
      return [status, stdout]
    }
    try {
      // The value of this beacon is the caller's own, so the ids agree and prove nothing.
      const [status, told] = run(selection, ids)
      expect(status).toBe(3)
      expect(told).toContain(`5 of 50 ids, frame ${frozen.digest}, round 1`)
      expect(told).toContain('verifiable: false')
      expect(told).not.toContain('agrees')
      expect(
        run(
          selection,
          ids.map((id) => `all\t${id}`),
        )[0],
      ).toBe(3)
      expect(run(selection, ids.slice(1))).toEqual([1, expect.stringContaining('was committed')])
      expect(spawnSync(process.execPath, [cli]).status).toBe(2)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('finds a household slipped in, another frame, another seed and another beacon', () => {
    const [all] = selection.strata
    const swapped = [drawn[1]!, drawn[0]!, ...drawn.slice(2, 5)]
    const cases = [
      audit({ ...selection, strata: [{ ...all!, ids: swapped }] }, frame(ids)),
      audit(selection, frame(ids.slice(1))),
      audit({ ...selection, strata: [{ ...all!, seed: `${seed}0` }] }, frame(ids)),
      audit({ ...selection, beaconHex: 'cd'.repeat(8) }, frame(ids)),
      audit(selection, frame([...ids, '0'])),
    ]
    for (const found of cases) expect(found).not.toEqual([])
    expect(cases[0]![0]).toContain('place 1 is')
  })
})

it('a frame of half a million ids lets other requests be served while it is put in order', async () => {
  const ids = Array.from({ length: 500_000 }, (_, n) => `household-${(n * 638_357) % 500_000}`)
  let counts: ReadonlyMap<string, number> = new Map()
  const turns = await loopTurns(async () => ({ counts } = await frameOf({ all: ids })))
  expect(counts).toEqual(new Map([['all', 500_000]]))
  expect(turns).toBeGreaterThan(4)
})
