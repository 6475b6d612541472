import { randomUUID } from 'node:crypto'
import { afterEach, expect, it } from 'vitest'
import { z } from 'zod'
import { killChildren } from '../support/child.ts'
import { type ClerkServer, openOffice, patient } from '../support/clerk.ts'
import { onEachDatabase } from '../support/each-database.ts'

afterEach(killChildren)

const operator = { authorization: 'Bearer the-operator-of-a-clerk' }

/** What the operator reads of a job, as far as this test looks. */
const listed = z.object({
  jobs: z.array(
    z.object({
      key: z.string(),
      state: z.string(),
      orphaned: z.boolean(),
      attempts: z.number(),
      schedule: z.string().optional(),
      error: z.string().optional(),
    }),
  ),
})

/** The jobs of the plugin that an upgrade changes, as the operator sees them. */
async function jobsAt({ url }: ClerkServer) {
  const answer = await fetch(`${url}/jobs?plugin=till&limit=200`, { headers: operator })
  return listed.parse(await answer.json()).jobs
}

const jobOf = async (server: ClerkServer, key: string) =>
  (await jobsAt(server)).find((job) => job.key === key)

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
      expect((await jobOf(second, key))?.error).toContain('amount')
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

const scheduleOf = async (server: ClerkServer) =>
  (await jobsAt(server)).filter(({ schedule }) => schedule !== undefined)
