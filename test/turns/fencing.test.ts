import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { distantWire } from '../support/distant-wire.ts'
import { replica } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'

await describeWith('postgres', 'leases of runs, with a fake engine', (postgres) => {
  async function database() {
    const { url, drop } = await freshDatabase(postgres)
    onTestFinished(() => drop())
    return url
  }

  test('end by a steady clock: a replica cut from its database lets go while its queries still hang', async () => {
    const wire = await flakyWire(await database())
    onTestFinished(() => wire.close())
    const begun = Promise.withResolvers<void>()
    const letGo = Promise.withResolvers<string>()
    const engine: Engine = async ({ signal }) => {
      begun.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      letGo.resolve(String(signal.reason))
      throw signal.reason
    }
    const here = await replica({ engine, databaseUrl: wire.url, leaseMs: 600 })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Think' })
    await begun.promise
    // From here on every query waits for its client's limit, 35 seconds, and no query has failed when the run is let go.
    wire.silence()
    expect(await letGo.promise).toContain('its lease ran out')
    const failed = here.logged.filter(({ message }) => message.includes('could not be renewed'))
    expect(failed).toEqual([])
    turn.cut()
    await wire.cut()
  })

  test('of fifty runs are kept while another replica far from the database takes them over, each once', async () => {
    const url = await database()
    const far = await distantWire(url, 40)
    onTestFinished(() => far.close())
    // Long enough for a slow machine; bringing up the runs one after the other takes longer.
    const leaseMs = 6_000
    // The first replica leaves its runs at once, as a roll-out does.
    const waits: Engine = async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      throw signal.reason
    }
    const first = await replica({ engine: waits, databaseUrl: url, leaseMs })
    const runs: string[] = []
    for (let i = 0; i < 50; i++) {
      const { body } = await first.call('POST', '/sessions')
      const turn = await first.stream(`/messages/${body.sessionId}`, { message: 'Count' })
      runs.push(turn.headers.get('x-run-id') ?? '')
      turn.cut()
    }
    await first.close()
    const carried: string[] = []
    const counts: Engine = async (run) => {
      carried.push(run.runId)
      run.emit('message', { content: 'Done.' })
      return { status: 'finished' }
    }
    const others = await Promise.all(
      [far.url, far.url].map((databaseUrl) => replica({ engine: counts, databaseUrl, leaseMs })),
    )
    const status = async (runId: string) => {
      const { rows } = await sql<{ status: string; attempts: number }>`
        select status, attempts from kernel_runs where id = ${runId}`.execute(others[0]!.store.db)
      return rows[0]
    }
    for (const runId of runs) {
      while ((await status(runId))?.status !== 'finished') await sleep(50)
      expect((await status(runId))?.attempts).toBe(0)
    }
    expect([...carried].sort()).toEqual([...runs].sort())
  })

  test('are taken over only for as many runs as a process carries', async () => {
    const url = await database()
    const waits: Engine = async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      throw signal.reason
    }
    const first = await replica({ engine: waits, databaseUrl: url, leaseMs: 600 })
    for (let i = 0; i < 5; i++) {
      const turn = await first.stream(`/messages/${await first.session()}`, { message: 'Wait' })
      turn.cut()
    }
    await first.close()
    let atOnce = 0
    let most = 0
    let ended = 0
    const slow: Engine = async () => {
      most = Math.max(most, ++atOnce)
      await sleep(50)
      atOnce--
      ended++
      return { status: 'finished' }
    }
    await replica({ engine: slow, databaseUrl: url, leaseMs: 600, runsPerProcess: 2 })
    while (ended < 5) await sleep(20)
    expect(most).toBe(2)
  })
})
