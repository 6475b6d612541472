import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { Model } from '#core'
import { testApp } from '#core/testing'
import { openStore } from '../../core/runtime/store/store.ts'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { flakyWire, freshDatabase } from '../support/database.ts'
import { distantWire } from '../support/distant-wire.ts'
import { replica } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'
import { silent } from '../support/silent-log.ts'

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
    const leaseMs = 600
    const engine: Engine = async ({ signal }) => {
      begun.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      letGo.resolve(String(signal.reason))
      throw signal.reason
    }
    const here = await replica({ engine, databaseUrl: wire.url, leaseMs })
    const turn = await here.stream(`/messages/${await here.session()}`, { message: 'Think' })
    await begun.promise
    // From here on every query waits for its client's limit, 35 seconds, and no query has failed when the run is let go.
    wire.silence()
    // A timer of the same process: what holds the one up holds the other up, too.
    const late = sleep(leaseMs + 1_000, 'still held', { ref: false })
    expect(await Promise.race([letGo.promise, late])).toContain('its lease ran out')
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

  test('are taken over by whole servers far from the database, each once, while these answer probes', async () => {
    const url = await database()
    const far = await distantWire(url, 40)
    onTestFinished(() => far.close())
    const carried: string[] = []
    const started = Promise.withResolvers<void>()
    let asked = 0
    const waits: Model = {
      id: 'waits/one',
      contextWindow: undefined,
      async *stream({ signal }) {
        if (++asked === 50) started.resolve()
        yield { type: 'text', text: 'One, ' }
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      },
    }
    const counts: Model = {
      id: 'waits/one',
      contextWindow: undefined,
      async *stream({ messages }) {
        carried.push(String(messages.findLast(({ role }) => role === 'user')?.content))
        yield { type: 'text', text: 'one, two.' }
      },
    }
    const server = async (databaseUrl: string, model: Model) => {
      const app = await testApp({
        plugins: [],
        model,
        env: {
          DATABASE_URL: databaseUrl,
          ORACLE_MNEMONIC: 'words that these servers share',
          RUN_LEASE_MS: '6000',
        },
      })
      onTestFinished(() => app.close())
      return app
    }
    const dying = await server(url, waits)
    const user = await dying.user('somebody')
    const messages = Array.from({ length: 50 }, (_, nth) => `Count ${nth}`)
    for (const message of messages) void user.say(message).catch(() => undefined)
    await started.promise
    await dying.crash()
    const others = await Promise.all([server(far.url, counts), server(far.url, counts)])
    const store = await openStore({ databaseUrl: url, log: silent })
    onTestFinished(() => store.close())
    const states = async () =>
      (await sql<{ status: string }>`select status from kernel_runs`.execute(store.db)).rows
    let probedAmidst = 0
    for (;;) {
      const before = carried.length
      for (const { url: at } of others)
        for (const probe of ['/livez', '/readyz'])
          expect((await fetch(at + probe)).status).toBe(200)
      if (before > 0 && before < 50) probedAmidst++
      if ((await states()).every(({ status }) => status === 'finished')) break
    }
    expect(await states()).toHaveLength(50)
    expect([...carried].sort()).toEqual([...messages].sort())
    expect(probedAmidst).toBeGreaterThan(0)
  }, 240_000)

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
