import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import type { Log } from '#core'
import { openStore, type Store, type StoreOptions } from '../../core/runtime/store/store.ts'
import { deafWire } from '../support/deaf-wire.ts'
import { behindPooler, type Pooled } from '../support/pooler.ts'
import { urlOf } from '../support/services.ts'

const redisUrl = await urlOf('redis')
if (redisUrl === undefined)
  process.stdout.write('skipped: messages by Redis. Start Redis on 127.0.0.1:6379.\n')

/** Short, so that a test does not wait for a minute. */
const selfTest = { everyMs: 200, patienceMs: 300 }
/** The same for a server that is to hear itself: on a busy machine a word of its own is late, and no sign that LISTEN is dead. */
const patientTest = { everyMs: 200, patienceMs: 5_000 }

async function opened(options: Partial<StoreOptions>) {
  const warnings: string[] = []
  const nothing = () => {}
  const warn = (...said: unknown[]) => void warnings.push(String(said.at(-1)))
  const log: Log = { debug: nothing, info: nothing, error: nothing, warn }
  const store = await openStore({ log, selfTest, ...options })
  onTestFinished(() => store.close())
  return { store, warnings }
}

const until = async (isSo: () => boolean) => {
  while (!isSo()) await sleep(20)
}

/** Listens, and gives what arrives. */
async function ear(store: Store) {
  const heard: string[] = []
  let gaps = 0
  await store.listen(
    'test_words',
    (word) => heard.push(word),
    () => gaps++,
  )
  return { heard, gaps: () => gaps }
}

const ways = {
  direct: {
    says: 'DATABASE_LISTEN_URL',
    of: ({ directUrl: listenUrl }: Pooled) => ({ listenUrl, selfTest: patientTest }),
  },
  redis: { says: 'REDIS_URL alone', of: () => ({ redisUrl: redisUrl! }) },
  polling: { says: 'neither', of: () => ({}) },
}

await behindPooler('replicas behind a transaction pooler', (pooled) => {
  for (const [way, { says, of }] of Object.entries(ways))
    it.skipIf(way === 'redis' && redisUrl === undefined && !process.env.REQUIRE_ALL)(
      `hear each other with ${says}: every message once, in order, and from statements when they are committed`,
      async () => {
        const at = { databaseUrl: pooled.pooledUrl, ...of(pooled) }
        const [one, two] = [await opened(at), await opened(at)]
        const ears = [await ear(one.store), await ear(two.store)]
        expect([one.store.listening(), two.store.listening()]).toEqual([way, way])
        for (const { warnings } of [one, two]) {
          const said = warnings.filter((line) => line.startsWith('LISTEN is not heard'))
          expect(said).toHaveLength(way === 'direct' ? 0 : 1)
          for (const line of said) {
            expect(line).toContain('DATABASE_LISTEN_URL')
            expect(line).toContain('REDIS_URL')
            expect(line).toContain('looking into a table')
          }
        }
        const words = Array.from({ length: 50 }, (_, i) => `word ${i}`)
        for (const word of words) await two.store.notify('test_words', word)
        for (const { heard } of ears) {
          await until(() => heard.length >= words.length)
          expect(heard).toEqual(words)
        }
      },
    )

  it('hear each other by polling within 600 ms', async () => {
    const at = { databaseUrl: pooled.pooledUrl }
    const [one, two] = [await opened(at), await opened(at)]
    const [{ heard }] = [await ear(one.store), await ear(two.store)]
    expect([one.store.listening(), two.store.listening()]).toEqual(['polling', 'polling'])
    // A machine under load may hold up one message or another, or all for a while; a server that looks too rarely is late always.
    let best = Infinity
    for (let round = 0; round < 5 && best >= 600; round++) {
      const waits: number[] = []
      for (let i = 0; i < 10; i++) {
        const word = `word ${round}.${i}`
        await sleep(37 * i)
        const began = performance.now()
        await two.store.notify('test_words', word)
        await until(() => heard.includes(word))
        waits.push(performance.now() - began)
      }
      best = Math.min(best, waits.sort((a, b) => a - b)[2]!)
    }
    expect(best).toBeLessThan(600)
  })

  it('go on by polling when Redis does not answer', async () => {
    const at = { databaseUrl: pooled.pooledUrl, redisUrl: 'redis://127.0.0.1:1' }
    const { store } = await opened(at)
    const { heard } = await ear(store)
    expect(store.listening()).toBe('polling')
    await store.notify('test_words', 'all the same')
    await until(() => heard.includes('all the same'))
  })

  it('go on without an address for listening that leads nowhere, and say so', async () => {
    const listenUrl = 'postgres://nobody@127.0.0.1:1/nothing'
    const { store, warnings } = await opened({ databaseUrl: pooled.pooledUrl, listenUrl })
    await ear(store)
    expect(store.listening()).toBe('polling')
    expect(warnings).toContain('DATABASE_LISTEN_URL cannot be used')
  })

  it('are heard by one that listens, which tells those that cannot', async () => {
    const hearing = await opened({ databaseUrl: pooled.directUrl, selfTest: patientTest })
    const deaf = await opened({ databaseUrl: pooled.pooledUrl })
    const [near, far] = [await ear(hearing.store), await ear(deaf.store)]
    expect([hearing.store.listening(), deaf.store.listening()]).toEqual(['direct', 'polling'])
    await deaf.store.notify('test_words', 'from the deaf one')
    await until(() => near.heard.includes('from the deaf one'))
    // The listening one learns of the other by a message, and tells it from then on.
    while (!far.heard.includes('to the deaf one')) {
      await hearing.store.notify('test_words', 'to the deaf one')
      await sleep(50)
    }
  })

  it('notice when LISTEN dies without a word, go another way, and come back', async () => {
    const wire = await deafWire(pooled.directUrl)
    onTestFinished(() => wire.close())
    const { store, warnings } = await opened({
      databaseUrl: pooled.directUrl,
      listenUrl: wire.url,
      selfTest: patientTest,
    })
    const { heard, gaps } = await ear(store)
    expect(store.listening()).toBe('direct')
    wire.deafen()
    await until(() => store.listening() === 'polling')
    expect(gaps()).toBeGreaterThan(0)
    await store.notify('test_words', 'while deaf')
    await until(() => heard.includes('while deaf'))
    const before = gaps()
    wire.hear()
    await until(() => store.listening() === 'direct')
    await until(() => gaps() > before)
    await store.notify('test_words', 'again')
    await until(() => heard.includes('again'))
    expect(warnings.filter((line) => line.includes('is heard again'))).toHaveLength(1)
    expect(heard).toEqual(['while deaf', 'again'])
  })
})
