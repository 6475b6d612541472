import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { type Cluster, freePort, promote, startCluster, startStandby } from '../support/cluster.ts'
import type { Seen } from '../support/event-stream.ts'
import { say } from '../support/fake-engines.ts'
import { startHaproxy } from '../support/haproxy.ts'
import { HeldUp } from '../support/held-up.ts'
import { replica } from '../support/replica.ts'
import { describeWith } from '../support/services.ts'

const leaseMs = 3_000
const chats = 50

/** HAProxy before the two: it sends connections to whoever takes writes, and asks that of a port which the test answers. */
async function proxyBefore(clusters: readonly Cluster[]): Promise<string> {
  const port = await freePort()
  const servers = clusters.map(
    ({ port }, i) =>
      `  server pg${i} 127.0.0.1:${port} check ${i > 0 ? 'backup' : ''} on-marked-down shutdown-sessions`,
  )
  startHaproxy(
    `listen postgres
  mode tcp
  bind 127.0.0.1:${port}
  option tcp-check
  default-server inter 200ms fall 1 rise 1
${servers.join('\n')}
`,
    onTestFinished,
  )
  return `postgres://root@127.0.0.1:${port}/postgres`
}

/** The world outside: which payments were made. */
const payments: string[] = []

/** Pays three times, each payment a write that happens at most once, and says so. A fake of the engine. */
const paying: Engine = async (run) => {
  const steps = run.takenOver ? await run.journal.read() : []
  for (let part = steps.length; part < 3; part++) {
    if (run.signal.aborted) throw run.signal.reason
    const id = `pay-${run.runId}-${part}`
    const effect = await run.effects.begin(id, 'pay')
    let content = effect.state === 'done' ? effect.content : 'interrupted, outcome unknown'
    if (effect.state === 'new') {
      payments.push(id)
      content = 'paid'
      await run.effects.finish(id, content, false)
    }
    run.emit('message', { content: `${part} ` })
    await sleep(150)
    await say(run, `${part}: ${content}`)
  }
  return { status: 'finished' }
}

await describeWith('haproxy', 'a PostgreSQL whose primary dies', () => {
  it('loses nothing that was told as done, and nothing is written twice', async () => {
    const primary = await startCluster({ max_wal_senders: '5', wal_level: 'replica' })
    onTestFinished(() => primary.close())
    const standby = await startStandby(primary, 'standby')
    onTestFinished(() => standby.close())
    const databaseUrl = await proxyBefore([primary, standby])
    const servers = [
      await replica({ engine: paying, databaseUrl, leaseMs }),
      await replica({ engine: paying, databaseUrl, leaseMs }),
    ] as const
    const turns = await Promise.all(
      Array.from({ length: chats }, async (_, i) => {
        const server = servers[i % 2] ?? servers[0]
        const sessionId = await server.session()
        const turn = await server.stream(`/messages/${sessionId}`, { message: 'Pay' })
        return { sessionId, runId: turn.headers.get('x-run-id') ?? '', turn }
      }),
    )
    const told: Promise<Seen[]>[] = turns.map(({ turn }) => turn.rest().catch(() => []))
    while (payments.length < chats) await sleep(10)
    await primary.kill()
    await promote(standby)
    using heldUp = new HeldUp()
    const promoted = performance.now()
    const rows = (sql: string) => standby.query<{ id: string; status: string; owner: string }>(sql)
    const open = () =>
      rows(`select id from kernel_runs where status in ('queued', 'running')
        and (owner is null or lease_until < extract(epoch from clock_timestamp()) * 1000)`)
    // Every run has ended or is carried by somebody who renews its lease.
    while ((await open()).length > 0) {
      expect(performance.now() - promoted - heldUp.ms()).toBeLessThan(leaseMs + 5_000)
      await sleep(100)
    }
    while (
      (await rows(`select id from kernel_runs where status in ('queued', 'running')`)).length > 0
    )
      await sleep(100)
    expect(new Set(payments).size).toBe(payments.length)
    const kept = new Map(
      (await rows('select id, status from kernel_runs')).map((row) => [row.id, row.status]),
    )
    for (const { runId, sessionId } of turns) {
      expect(kept.get(runId)).toBe('finished')
      const { body } = await servers[1].call('GET', `/messages/${sessionId}`)
      expect(body.messages.at(0).content).toBe('Pay')
      // What the conversation tells as paid was paid, and of no payment is there nothing to read.
      const told = JSON.stringify(body.messages)
      for (const part of [0, 1, 2]) {
        expect(told).toMatch(new RegExp(`${part}: (paid|interrupted, outcome unknown)`))
        if (told.includes(`${part}: paid`)) expect(payments).toContain(`pay-${runId}-${part}`)
      }
    }
    // Whoever was told of an end has it.
    for (const events of await Promise.all(told)) {
      const done = events.find(({ event }) => event === 'done')
      if (done) expect(kept.get(String(done.data.runId))).toBe(done.data.status)
    }
  }, 120_000)
})
