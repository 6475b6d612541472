import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { AskableModel } from '#core'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

/** Numbers from 0 to 1 that a seed decides. */
function random(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/** A model that proposes what the test says, whatever it is asked. */
const proposing = (...memories: readonly Record<string, unknown>[]) => {
  const object: unknown = async () => ({ memories })
  return { object } as AskableModel
}
const home = (value: string, more = {}) => ({
  message: 1,
  quote: `I live in ${value}`,
  text: `lives in ${value}`,
  kind: 'fact',
  about: 'me',
  slot: 'home',
  value,
  ...more,
})
const denial = (value: string) =>
  home(value, {
    quote: `I no longer live in ${value}`,
    text: `no longer lives in ${value}`,
    ends: true,
  })

type Held = [value: string, from: number | null, to: number | null]

/** What held by time, where two rows that say the same one after the other are one. */
function joined(rows: readonly (readonly [string, number | null, number | null])[]): Held[] {
  const found: Held[] = []
  for (const [value, from, to] of rows) {
    const last = found.at(-1)
    if (last?.[0] === value && last[2] === from) last[2] = to
    else found.push([value, from, to])
  }
  return found
}

await onEachDatabase('one truth at a time', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  /** A person of whom turns are heard and read in whatever order the test likes. */
  const person = async () => {
    const did = `did:test:${randomUUID()}`
    await open.self.choose(did, { mode: 'on' })
    const start = open.self.now - 3_600_000
    const hear = async (words: string, minute: number) => {
      const turn = { runId: randomUUID(), sessionId: randomUUID(), did, words, reply: 'Fine.' }
      await open.self.hear(open.self.db, { ...turn, at: start + minute * 60_000 })
      return turn.sessionId
    }
    const read = (sessionId: string, ...memories: readonly Record<string, unknown>[]) => {
      const signal = new AbortController().signal
      return open.self.notice(did, sessionId, {
        model: proposing(...memories),
        signal,
        isLast: false,
      })
    }
    /** What the slot held, by time: the value, and the minutes from and to. */
    const history = async () => {
      const minute = (ms: number | null) => (ms === null ? null : (ms - start) / 60_000)
      const all = await open.self.memories.all(open.self.db, did)
      return all
        .map((one) => [one.value, minute(one.valid_from), minute(one.valid_to)] as const)
        .sort((one, other) => Number(one[1]) - Number(other[1]))
    }
    return { did, hear, read, history }
  }
  const said = [
    ['I live in Lusaka', home('Lusaka')],
    ['I live in Ndola', home('Ndola')],
    ['I live in Lusaka', home('Lusaka')],
    ['I no longer live in Lusaka', denial('Lusaka')],
  ] as const
  const orders = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
  ]

  it('is the same for what was changed and changed back, in whatever order it is read', async () => {
    for (const order of orders) {
      const { hear, read, history } = await person()
      const sessions = [await hear(said[0][0], 0), await hear(said[1][0], 1)]
      sessions.push(await hear(said[2][0], 2))
      for (const i of order) await read(sessions[i] ?? '', said[i]?.[1] ?? {})
      expect([order, await history()]).toEqual([
        order,
        [
          ['Lusaka', 0, 1],
          ['Ndola', 1, 2],
          ['Lusaka', 2, null],
        ],
      ])
    }
  })

  it('ends what was denied, also when the denial is read before the sentence', async () => {
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const { hear, read, history } = await person()
      const sessions = [await hear(said[2][0], 0), await hear(said[3][0], 1)]
      for (const i of order) await read(sessions[i] ?? '', said[i + 2]?.[1] ?? {})
      expect([order, await history()]).toEqual([order, [['Lusaka', 0, 1]]])
      // Said again later it holds again.
      await read(await hear('I live in Lusaka', 2), home('Lusaka'))
      expect((await history()).at(-1)).toEqual(['Lusaka', 2, null])
    }
  })

  it('ends nothing without words that end it', async () => {
    const { hear, read, history } = await person()
    await read(await hear('I live in Lusaka', 0), home('Lusaka'))
    await read(await hear('I live in Lusaka', 1), home('Lusaka', { ends: true }))
    expect(await history()).toEqual([['Lusaka', 0, null]])
  })

  it('reads a turn once, when a job is repeated or two read at once', async () => {
    const { did, hear, read, history } = await person()
    const session = await hear('I live in Lusaka', 0)
    await Promise.all([read(session, home('Lusaka')), read(session, home('Lusaka'))])
    await read(session, home('Lusaka'), home('Ndola'))
    expect(await history()).toEqual([['Lusaka', 0, null]])
    const sources = await open.self.memories.sourcesOf(open.self.db, did)
    expect([...sources.values()].map((places) => places.length)).toEqual([1])
    const rows = await open.self.db
      .selectFrom('memory_passages')
      .select(['words', 'reply'])
      .where('did', '=', did)
      .execute()
    expect(rows).toEqual([{ words: 'I live in Lusaka', reply: '' }])
  })

  it('does not bring back by a late job what was erased, and keeps what is said again later', async () => {
    const { did, hear, read, history } = await person()
    await read(await hear('I live in Lusaka', 0), home('Lusaka'))
    const [memory] = await open.self.memories.all(open.self.db, did)
    const waiting = await hear('I live in Lusaka, you know', 1)
    const erase = () =>
      open.self.alone(did, (trx) =>
        open.self.memories.erase(trx, did, [memory?.id ?? ''], open.self.now),
      )
    expect(await erase()).toHaveLength(1)
    await read(waiting, home('Lusaka'))
    expect(await history()).toEqual([])
    // Turns from before the erasing that are heard late: other words, no slot, another value of the slot.
    const before = (await open.counts())['refused:erased'] ?? 0
    for (const late of [
      home('Lusaka'),
      home('Lusaka', { slot: undefined, value: undefined }),
      home('Lusaka', { slot: undefined, value: undefined, text: 'the user lives in Lusaka' }),
    ])
      await read(await hear('I live in Lusaka', 2), late)
    await read(await hear('I live in Kitwe', 3), home('Kitwe'))
    expect(await history()).toEqual([])
    expect((await open.counts())['refused:erased']).toBe(before + 4)
    await read(await hear('I live in Lusaka', 58), home('Lusaka'))
    expect(await history()).toEqual([])
    await open.app.clock.advance('5m')
    await read(await hear('I live in Lusaka', 62), home('Lusaka'))
    expect(await history()).toEqual([['Lusaka', 62, null]])
  })

  it('is what the order of the words makes it, for 60 people who say, change, repeat and deny at random, read in any order', async () => {
    const next = random(20_011)
    const one = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)] as T
    for (let round = 0; round < 60; round++) {
      const { hear, read, history } = await person()
      const events: { town: string; isDenial: boolean; session: string }[] = []
      for (let minute = 0; minute < 7; minute++) {
        const town = one(['Lusaka', 'Ndola', 'Kitwe'])
        const isDenial = next() < 0.3
        const words = isDenial ? `I no longer live in ${town}` : `I live in ${town}`
        events.push({ town, isDenial, session: await hear(words, minute) })
      }
      // Each is read once or twice, in any order, some of them at once.
      const jobs = [...events, ...events.filter(() => next() < 0.4)]
        .map((event) => ({ event, place: next() }))
        .sort((a, b) => a.place - b.place)
        .map(({ event }) => event)
      while (jobs.length > 0)
        await Promise.all(
          jobs
            .splice(0, next() < 0.5 ? 1 : 2)
            .map(({ town, isDenial, session }) =>
              read(session, isDenial ? denial(town) : home(town)),
            ),
        )
      const expected: [string, number, number | null][] = []
      for (const [minute, { town, isDenial }] of events.entries()) {
        const now = expected.at(-1)
        const holds = now?.[2] === null ? now : undefined
        if (isDenial ? holds?.[0] !== town : holds?.[0] === town) continue
        if (holds) holds[2] = minute
        if (!isDenial) expected.push([town, minute, null])
      }
      const told = events.map(({ town, isDenial }) => `${isDenial ? '-' : ''}${town}`)
      expect([told, joined(await history())]).toEqual([told, expected])
    }
  }, 300_000)

  it('lets several values stand beside each other, each ended by its own denial, and a visit end by itself', async () => {
    const { did, hear, read, history } = await person()
    const likes = (value: string, more = {}) => ({
      message: 1,
      quote: `I like ${value}`,
      text: `likes ${value}`,
      kind: 'preference',
      about: 'me',
      slot: 'likes',
      value,
      ...more,
    })
    await read(await hear('I like tea', 0), likes('tea'))
    await read(await hear('I like cocoa', 1), likes('cocoa'))
    await read(await hear('I like tea', 2), likes('tea'))
    await read(
      await hear('I no longer like tea', 3),
      likes('tea', { quote: 'I no longer like tea', text: 'no longer likes tea', ends: true }),
    )
    expect(await history()).toEqual([
      ['tea', 0, 3],
      ['cocoa', 1, null],
    ])
    const visit = 'I will be in Kasama until tomorrow'
    await read(await hear(visit, 4), {
      ...likes('Kasama', { quote: visit, text: 'will be in Kasama until tomorrow' }),
      kind: 'plan',
      slot: 'visit',
    })
    const shown = async () => (await open.self.indexOf(did)).find('Kasama', open.self.now).length
    expect(await shown()).toBe(1)
    await open.app.clock.advance('3d')
    expect(await shown()).toBe(0)
  })
})
