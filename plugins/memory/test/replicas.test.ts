import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { AskableModel } from '#core'
import { onPostgres } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'
import { eraseAll } from '../kept/erasing.ts'

/** A model that proposes what the test says, whatever it is asked. */
const proposing = (...memories: readonly Record<string, unknown>[]) => {
  const object: unknown = async () => ({ memories })
  return { object } as AskableModel
}
const towns = ['Lusaka', 'Ndola', 'Kitwe', 'Kabwe', 'Mongu', 'Kasama']
const home = (value: string) => ({
  message: 1,
  quote: `I live in ${value}`,
  text: `lives in ${value}`,
  kind: 'fact',
  about: 'me',
  slot: 'home',
  value,
})

await onPostgres('one truth on two replicas', ({ databaseUrl }) => {
  const [one, other] = [new OpenMemory({}, databaseUrl), new OpenMemory({}, databaseUrl)]

  it('holds one value at any time, whichever replica hears and reads, in whatever order', async () => {
    for (let round = 0; round < 5; round++) {
      const did = `did:test:${randomUUID()}`
      await one.self.choose(did, { mode: 'on' })
      const start = one.self.now - 3_600_000
      const sessions = await Promise.all(
        towns.map(async (town, i) => {
          const { self } = i % 2 ? one : other
          const sessionId = randomUUID()
          const turn = {
            runId: randomUUID(),
            sessionId,
            did,
            at: start + i * 60_000,
            reply: 'Fine.',
          }
          await self.hear(self.db, { ...turn, words: `I live in ${town}` })
          return sessionId
        }),
      )
      const signal = new AbortController().signal
      // Each session is read by both replicas at once, as after a takeover.
      await Promise.all(
        towns.flatMap((town, i) =>
          [one, other].map(({ self }) =>
            self.notice(did, sessions[(i + round) % towns.length] ?? '', {
              model: proposing(home(towns[(i + round) % towns.length] ?? town)),
              signal,
              isLast: false,
            }),
          ),
        ),
      )
      const all = (await other.self.memories.all(other.self.db, did))
        .map(({ value, valid_from, valid_to }) => [value, valid_from, valid_to] as const)
        .sort((a, b) => a[1] - b[1])
      expect(all).toEqual(
        towns.map((town, i) => [
          town,
          start + i * 60_000,
          i === towns.length - 1 ? null : start + (i + 1) * 60_000,
        ]),
      )
      // Each replica sees it at once: what it keeps in memory is dropped when the version has moved.
      for (const { self } of [one, other])
        expect((await self.indexOf(did)).standing(self.now).map(({ value }) => value)).toEqual([
          'Kasama',
        ])
    }
  })

  it('erases what a turn said whose end another replica is just being told of', async () => {
    for (const erase of ['everything', 'one memory', 'the session'] as const) {
      const did = `did:test:${randomUUID()}`
      await one.self.choose(did, { mode: 'on' })
      const { now } = one.self
      const sessionId = randomUUID()
      const turn = { runId: randomUUID(), sessionId, did, at: now - 1_000 }
      const given = {
        kind: 'fact',
        about: 'me',
        slot: 'home',
        value: 'Kabwe',
        text: 'lives in Kabwe',
      }
      const known = await other.self.alone(did, (trx) =>
        other.self.memories.keep(
          trx,
          did,
          { ...given, kind: 'fact', by: 'person' },
          { sessionId: '', runId: 'hand', quote: '', at: now - 60_000 },
          now,
        ),
      )
      const erasing = {
        everything: () => other.self.eraseAll(did, false),
        'one memory': () => other.self.erase(did, [known.memory?.id ?? '']),
        'the session': () => other.self.setIncognito(did, sessionId, true),
      }[erase]
      let erased: Promise<unknown> | undefined
      await one.self.db.transaction().execute(async (trx) => {
        const standing = await one.self.ends(trx, turn)
        erased = erasing()
        await new Promise((done) => setTimeout(done, 200))
        await one.self.hear(
          trx,
          { ...turn, words: 'I live in Kabwe with three cats', reply: 'Fine.' },
          standing,
        )
      })
      await erased
      const question = { question: 'Kabwe', from: 0, to: 9e15 }
      expect(await one.self.passages.find(one.self.db, did, question), erase).toEqual([])
      expect(await one.self.unread(sessionId), erase).toBe(0)
    }
  })

  it('knows at the end of a turn of an erasing that another replica was in the middle of', async () => {
    for (const isKnown of [true, false]) {
      const did = `did:test:${randomUUID()}`
      if (isKnown) await one.self.choose(did, { mode: 'on' })
      const turn = { runId: randomUUID(), sessionId: randomUUID(), did, at: one.self.now - 1_000 }
      const erased = Promise.withResolvers<void>()
      const locked = Promise.withResolvers<void>()
      const erasing = other.self.alone(did, async (trx) => {
        locked.resolve()
        await erased.promise
        await eraseAll(trx, did, {
          passages: other.self.passages,
          at: other.self.now,
          withSettings: false,
        })
      })
      await locked.promise
      const ending = one.self.db.transaction().execute((trx) => one.self.ends(trx, turn))
      await new Promise((done) => setTimeout(done, 200))
      erased.resolve()
      await erasing
      expect((await ending).erased).toBe('all')
    }
  })
})
