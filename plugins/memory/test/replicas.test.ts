import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import type { AskableModel } from '#core'
import { onPostgres } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

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
})
