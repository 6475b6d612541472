import { randomUUID } from 'node:crypto'
import { afterEach, expect, it } from 'vitest'
import { killChildren } from '../support/child.ts'
import { type ClerkServer, openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'

afterEach(killChildren)

const operator = { authorization: 'Bearer the-operator-of-a-clerk' }

/** A job of the plugin that an upgrade changes, as the operator sees it. */
async function jobOf(server: ClerkServer, key: string) {
  const { body } = await server.get('/jobs?plugin=till&limit=200', { headers: operator })
  return body.jobs.find((job: { key: string; name: string }) => job.key === key)
}

/** Asks for a job, which begins once the server that took it is dead. */
async function asked(server: ClerkServer, inMs = 3_000): Promise<string> {
  const key = randomUUID()
  expect(await server.post('/count', { amount: 5, key, inMs })).toMatchObject({ status: 200 })
  return key
}

await onEachDatabase('a job whose server is killed before an upgrade', (where) => {
  it(
    'is dead with the path where its data does not fit any more',
    { timeout: 90_000 },
    async () => {
      const office = await openOffice(where)
      const first = await office.serve()
      const key = await asked(first)
      await first.kill()
      const second = await office.serve({ upgrade: 'schema' })
      await expect.poll(async () => (await jobOf(second, key))?.state, patient).toBe('dead')
      expect((await jobOf(second, key)).error).toContain('amount')
      expect(office.of('job').filter((note) => note.key === key)).toEqual([])
    },
  )

  it('waits while its plugin is gone, and runs when it is back', { timeout: 90_000 }, async () => {
    const office = await openOffice(where)
    const first = await office.serve()
    const key = await asked(first, 500)
    await first.kill()
    const second = await office.serve({ upgrade: 'gone' })
    await expect.poll(async () => (await jobOf(second, key))?.orphaned, patient).toBe(true)
    expect(await jobOf(second, key)).toMatchObject({ state: 'due', attempts: 0 })
    await second.kill()
    await office.serve()
    const ran = () => office.of('job').filter((note) => note.key === key)
    await expect.poll(() => ran().length, patient).toBe(1)
    expect(ran()).toMatchObject([{ amount: 5, attempt: 1 }])
  })

  it('has its new plan at the next boot, in the one row', { timeout: 90_000 }, async () => {
    const office = await openOffice(where)
    const first = await office.serve()
    const plans = () => office.rows<{ schedule: string }>(planned)
    await expect.poll(async () => (await scheduleOf(first)).length, patient).toBe(1)
    await first.kill()
    await office.serve({ upgrade: 'schema' })
    const closed = () => office.of('job').filter((note) => note.closed)
    await expect.poll(() => closed().length, patient).toBeGreaterThan(1)
    const keys = closed().map(({ key }) => key)
    expect(new Set(keys).size).toBe(keys.length)
    await office.close()
    expect(await plans()).toHaveLength(1)
  })
})

const planned = `select schedule from kernel_jobs where plugin = 'till' and schedule is not null`

async function scheduleOf(server: ClerkServer): Promise<unknown[]> {
  const { body } = await server.get('/jobs?plugin=till&limit=200', { headers: operator })
  return body.jobs.filter(({ schedule }: { schedule?: string }) => schedule !== undefined)
}
