import { sql } from 'kysely'
import { expect, it } from 'vitest'
import { definePlugin, type ModelCall } from '#core'
import payments from '../../plugins/payments/index.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { OpenMemory } from '../support/open-memory.ts'

await onEachDatabase('what a reading costs', ({ databaseUrl }) => {
  const calls: ModelCall[] = []
  const ear = definePlugin({
    name: 'ear',
    summary: 'Hears of calls of models.',
    onUsage: (call) => void (call.kind !== 'embedding' && calls.push(call)),
  })
  const price = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '9000000000000' }
  const open = new OpenMemory(price, databaseUrl, [payments, ear])

  it('is told as one call for all turns of the session, and charged to nobody', async () => {
    const user = await open.user()
    const likes = { kind: 'preference', slot: 'likes', message: 1 }
    open.notices('I like cocoa', {
      ...likes,
      quote: 'I like cocoa',
      text: 'likes cocoa',
      value: 'cocoa',
    })
    const { sessionId } = await user.say('I like cocoa.')
    await user.say('And how are you?', { sessionId })
    const charges = async () => (await user.get('/payments/charges')).body.charges
    const pending = async () => (await user.get(`/memory/sessions/${sessionId}`)).body.pending
    const jobs = async () => {
      const { rows } = await sql<{ many: number }>`select count(*) as many from kernel_jobs
        where plugin = 'memory' and name = 'notice' and state in ('due', 'running')`.execute(
        open.self.db,
      )
      return Number(rows[0]?.many)
    }
    await expect.poll(pending, { timeout: 60_000 }).toBe(2)
    expect(await jobs()).toBe(2)
    await expect.poll(async () => (await charges()).length, { timeout: 60_000 }).toBe(2)
    const [before, account] = [await charges(), (await user.get('/payments/account')).body]
    await expect.poll(() => calls.length, { timeout: 60_000 }).toBe(2)
    await open.app.clock.advance('2m')
    await expect.poll(pending, { timeout: 60_000 }).toBe(0)
    // The jobs of both turns were due at once, and have both ended by now.
    await expect.poll(jobs, { timeout: 60_000 }).toBe(0)
    expect(await open.texts(user)).toEqual(['likes cocoa'])
    expect(calls).toHaveLength(3)
    const call = calls.at(-1)
    expect(call).toMatchObject({ kind: 'plugin', plugin: 'memory', did: user.did })
    expect(call?.runId).toBeUndefined()
    expect(await charges()).toEqual(before)
    expect((await user.get('/payments/account')).body).toEqual(account)
    expect((await open.counts())['model-calls']).toBe(1)
  }, 300_000)
})
