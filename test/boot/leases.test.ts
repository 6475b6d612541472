import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, it, onTestFinished } from 'vitest'
import { definePlugin, type Database, type HeldLease, type Lease } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { onEachDatabase, onPostgres, type Where } from '../support/each-database.ts'

/** A plugin whose work one process at a time does: it notes who began, and ends when its signal fires. */
function keeper(name = 'device') {
  const began: HeldLease[] = []
  const ended: number[] = []
  let lease: Lease | undefined
  let db: Database | undefined
  const work = { fails: 0, steals: 0 }
  const plugin = definePlugin({
    name: 'keeper',
    summary: 'Holds a device.',
    visibility: 'silent',
    setup(boot) {
      db = boot.db
      lease = boot.lease(name, async (held) => {
        began.push(held)
        if (work.fails-- > 0) throw new Error('The device is dirty.')
        if (work.steals-- > 0) {
          // Another process has taken it, and a transaction is the first to hear of it.
          await sql`update kernel_leases set owner = 'another', lease_until = 0`.execute(boot.db)
          await boot.db.transaction().execute((trx) => held.hold(trx))
        }
        await new Promise((resolve) => held.signal.addEventListener('abort', resolve))
        ended.push(held.epoch)
      })
      expect(() => boot.lease(name, () => undefined)).toThrow('asked twice')
      expect(() => boot.lease('two words', () => undefined)).toThrow('whose name is none')
      // @ts-expect-error work is a function
      expect(() => boot.lease('other', 'work')).toThrow('has no work')
    },
  })
  return {
    plugin,
    began,
    ended,
    work,
    get lease() {
      if (!lease) throw new Error('The setup did not run.')
      return lease
    },
    /** Whether the newest holding is held, as a transaction sees it. */
    held: () =>
      db?.transaction().execute(async (trx) => {
        await began.at(-1)?.hold(trx)
        return true
      }),
  }
}

const leaseMs = 600

async function open(where: Where, own: ReturnType<typeof keeper>) {
  const app = await testApp({
    plugins: [own.plugin],
    model: scriptedModel([]),
    env: {
      RUN_LEASE_MS: String(leaseMs),
      ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
    },
  })
  onTestFinished(() => app.close())
  return app
}

const began = (own: ReturnType<typeof keeper>, times = 1) =>
  expect.poll(() => own.began.length, { timeout: 20_000 }).toBe(times)

await onEachDatabase('a lease', (where) => {
  it('is held at once, beyond its time, and let go with the server', async () => {
    const own = keeper()
    const app = await open(where, own)
    await began(own)
    const [held] = own.began
    await sleep(leaseMs * 2)
    expect([held?.isHeld(), own.lease.isHeld(), await own.held()]).toEqual([true, true, true])
    expect(await own.lease.heldBy()).toMatch(/^.+:\d+$/)
    await app.close()
    expect([held?.isHeld(), own.ended]).toEqual([false, [held?.epoch]])
  })

  it('rises in its epoch, after a crash too, and begins work anew that failed', async () => {
    const own = keeper()
    own.work.fails = 1
    const app = await open(where, own)
    await began(own, 2)
    const [first, second] = own.began
    expect(second!.epoch).toBeGreaterThan(first!.epoch)
    expect(first!.signal.aborted).toBe(true)
    await app.crash()
    expect(second!.isHeld()).toBe(false)
    await app.again()
    await began(own, 3)
    expect(own.began[2]!.epoch).toBeGreaterThan(second!.epoch)
    expect(await own.held()).toBe(true)
  })

  it('that a transaction finds lost ends the work, which is no failure, and is asked for again', async () => {
    const own = keeper()
    own.work.steals = 1
    const app = await open(where, own)
    await began(own, 2)
    const [first, second] = own.began
    expect(second!.epoch).toBeGreaterThan(first!.epoch)
    expect(first!.signal.aborted).toBe(true)
    expect(app.log.join('\n')).not.toContain('The work of a lease failed')
    expect(await own.held()).toBe(true)
  })
})

await onPostgres('a lease between two replicas', (where) => {
  it('is held by one, goes to the other at once, and is refused to who lost it', async () => {
    const [here, there] = [keeper('shared'), keeper('shared')]
    const first = await open(where, here)
    await began(here)
    await open(where, there)
    await sleep(leaseMs * 1.5)
    expect(there.began).toHaveLength(0)
    expect(await there.lease.heldBy()).toBe(await here.lease.heldBy())
    const [lost] = here.began
    await first.close()
    await began(there)
    expect(there.began[0]!.epoch).toBeGreaterThan(lost!.epoch)
    expect(lost!.isHeld()).toBe(false)
    expect(await there.held()).toBe(true)
  })

  it('moves from a process that died, and a frozen one is told that the lease is lost', async () => {
    const [here, there] = [keeper('frozen'), keeper('frozen')]
    const first = await open(where, here)
    await began(here)
    await open(where, there)
    await first.crash()
    await began(there)
    expect(here.began[0]!.isHeld()).toBe(false)
    // The old epoch is refused in any transaction, whoever asks.
    const [old] = here.began
    let refused: unknown
    const looking = definePlugin({
      name: 'looking',
      summary: 'Asks for the old epoch.',
      visibility: 'silent',
      async setup({ db }) {
        await db
          .transaction()
          .execute((trx) => old!.hold(trx))
          .catch((error: { code?: string }) => (refused = error.code))
      },
    })
    const env = { ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }) }
    const app = await testApp({ plugins: [looking], model: scriptedModel([]), env })
    onTestFinished(() => app.close())
    expect(refused).toBe('LEASE_LOST')
  })
})
