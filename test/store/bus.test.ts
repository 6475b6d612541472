import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import type { Log } from '#core'
import { testApp } from '#core/testing'
import { channelOf, tellsThat } from '../../core/runtime/store/channels/channels.ts'
import { openStore, type Store, type StoreOptions } from '../../core/runtime/store/store.ts'
import { flakyWire } from '../support/database.ts'
import { onBus } from '../support/bus.ts'

/** Short, so that a test does not wait for a minute. */
const selfTest = { everyMs: 300, patienceMs: 1_000 }
const channel = channelOf('test_thing', 'one')

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
async function ear(store: Store, to = channel) {
  const heard: string[] = []
  let gaps = 0
  const stop = await store.listen(
    to,
    (word) => heard.push(word),
    () => gaps++,
  )
  return { heard, gaps: () => gaps, stop }
}

/** Says words until they are heard, for who has just changed its way may lose some: then every word must come once. */
async function saysUntilHeard(from: Store, ears: readonly { heard: string[] }[], word: string) {
  for (let i = 0; !ears.every(({ heard }) => heard.some((each) => each.startsWith(word))); i++) {
    await from.notify(channel, `${word} ${i}`)
    await sleep(50)
  }
  for (const { heard } of ears) expect(new Set(heard).size).toBe(heard.length)
}

for (const kind of ['nats', 'redis'] as const)
  await onBus(kind, `replicas on a bus (${kind})`, ({ databaseUrl, start }) => {
    async function wired() {
      const wire = await flakyWire((await start()).url)
      onTestFinished(() => wire.close())
      return wire
    }

    it('hear each other by it, each word once and in order, and the database tells nobody', async () => {
      const { url: busUrl } = await wired()
      const stores = await Promise.all([1, 2, 3].map(() => opened({ databaseUrl, busUrl })))
      const ears = await Promise.all(stores.slice(1).map(({ store }) => ear(store)))
      const [{ store: teller } = await opened({})] = stores
      const other = await ear(teller, channelOf('test_thing', 'another'))
      expect(stores.map(({ store }) => store.listening())).toEqual(['bus', 'bus', 'bus'])
      expect(teller.bus()).toMatchObject({ kind, isUp: true, awaySeconds: 0 })
      const deaf = await opened({ databaseUrl })
      const words = Array.from({ length: 40 }, (_, i) => `word ${i}`)
      for (const word of words) await teller.notify(channel, word)
      for (const { heard } of ears) {
        await until(() => heard.length >= words.length)
        expect(heard).toEqual(words)
      }
      // A statement tells what it has committed, also within a transaction, and not what it has undone.
      const says = (db: Store['db'], word: string) =>
        db.selectNoFrom(tellsThat(channel, word).as('told')).execute()
      await teller.db.transaction().execute((trx) => says(trx, 'committed'))
      const undone = teller.db.transaction().execute(async (trx) => {
        await says(trx, 'undone')
        throw new Error('as planned')
      })
      await expect(undone).rejects.toThrow('as planned')
      await says(teller.db, 'alone')
      for (const { heard } of ears) {
        await until(() => heard.length >= words.length + 2)
        expect(heard.slice(words.length)).toEqual(['committed', 'alone'])
      }
      expect(other.heard).toEqual([])
      await ears[0]?.stop()
      await teller.notify(channel, 'later')
      await until(() => ears[1]?.heard.includes('later') ?? false)
      expect(ears[0]?.heard).not.toContain('later')
      expect(deaf.store.listening()).toBe('direct')
    })

    it('go on by the database when it is killed, and come back to it', async () => {
      const bus = await start()
      const stores = await Promise.all([1, 2].map(() => opened({ databaseUrl, busUrl: bus.url })))
      const ears = await Promise.all(stores.map(({ store }) => ear(store)))
      const [one, two] = stores.map(({ store }) => store) as [Store, Store]
      await saysUntilHeard(one, ears, 'before')
      await bus.kill()
      await until(() => stores.every(({ store }) => store.listening() === 'direct'))
      expect(one.bus()).toMatchObject({ isUp: false })
      expect(ears.every(({ gaps }) => gaps() > 0)).toBe(true)
      for (const { warnings } of stores)
        expect(warnings.filter((line) => line.includes('BUS_URL is away'))).toHaveLength(1)
      await saysUntilHeard(two, ears, 'meanwhile')
      await bus.startAgain()
      await until(() => stores.every(({ store }) => store.listening() === 'bus'))
      await saysUntilHeard(one, ears, 'after')
    })

    it('reach one that lost it, and one that never had it, while the others keep it', async () => {
      const { url: busUrl } = await start()
      const wire = await flakyWire(busUrl)
      onTestFinished(() => wire.close())
      const kept = await opened({ databaseUrl, busUrl })
      const lost = await opened({ databaseUrl, busUrl: wire.url })
      const never = await opened({ databaseUrl })
      const ears = await Promise.all([kept, lost, never].map(({ store }) => ear(store)))
      await wire.cut()
      await until(() => lost.store.listening() === 'direct')
      expect(kept.store.listening()).toBe('bus')
      for (const { store } of [kept, lost, never])
        await saysUntilHeard(store, ears, `from ${store.listening()} ${Math.random()}`)
    })

    it('boot without it when nothing answers, or somebody who is silent, and say so', async () => {
      const silent = createServer(() => {}).listen(0, '127.0.0.1')
      await once(silent, 'listening')
      onTestFinished(() => void silent.close())
      const { port } = silent.address() as AddressInfo
      for (const at of [1, port]) {
        const busUrl = `${kind}://127.0.0.1:${at}`
        const { store, warnings } = await opened({ databaseUrl, busUrl })
        const { heard } = await ear(store)
        expect(store.listening()).toBe('direct')
        expect(store.bus()).toMatchObject({ kind, isUp: false })
        expect(warnings.filter((line) => line.includes('BUS_URL is away'))).toHaveLength(1)
        await store.notify(channel, 'all the same')
        await until(() => heard.includes('all the same'))
      }
    })
  })

it.each(['http://127.0.0.1:1', 'amqp://127.0.0.1', 'nats', ''.padEnd(40, 'x')])(
  'a BUS_URL that is no bus stops the boot: %s',
  async (address) => {
    const boot = testApp({
      plugins: [],
      env: { DATABASE_URL: 'postgres://root@127.0.0.1:1/none', BUS_URL: address },
    })
    await expect(boot).rejects.toThrow('BUS_URL')
  },
)
