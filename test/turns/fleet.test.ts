import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Engine } from '../../core/runtime/turns/run.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { startBus } from '../support/bus-process.ts'
import { flakyWire } from '../support/database.ts'
import { say } from '../support/fake-engines.ts'
import { type Replica, startServer } from '../support/server.ts'
import { describeWith } from '../support/services.ts'

// Each of these starts up to eight replicas, and on a machine under load that takes its time.
vi.setConfig({ testTimeout: 300_000 })

/** How often a text of the bus's own protocol, which brings one message, goes over a wire. */
function counting(kind: Kind) {
  const mark = { nats: 'MSG oracle.', redis: '$7\r\nmessage\r\n', none: '' }[kind]
  let count = 0
  const onAnswer = () => {
    let rest = ''
    return (bytes: Buffer) => {
      const text = rest + bytes.toString('latin1')
      const parts = text.split(mark)
      count += parts.length - 1
      rest = (parts.at(-1) ?? '').slice(-(mark.length - 1))
    }
  }
  return { onAnswer, take: () => count }
}

/** Counts the notifications that PostgreSQL sends over a wire. */
function countingNotifications() {
  let count = 0
  const onAnswer = () => {
    let rest = Buffer.alloc(0)
    return (bytes: Buffer) => {
      rest = Buffer.concat([rest, bytes])
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        if (rest[0] === 'A'.charCodeAt(0)) count++
        rest = rest.subarray(1 + rest.readUInt32BE(1))
      }
    }
  }
  return { onAnswer, take: () => count }
}

type Kind = 'nats' | 'redis' | 'none'

/** Says words when it is told to, until it is told to end. A fake of the engine. */
function dictated() {
  const waiting = new Map<string, (word: string | undefined) => void>()
  const engine: Engine = async (run) => {
    let said = ''
    for (;;) {
      const word = await new Promise<string | undefined>((resolve) =>
        waiting.set(run.runId, resolve),
      )
      if (word === undefined) break
      run.emit('message', { content: word })
      said += word
    }
    await say(run, said)
    return { status: 'finished' }
  }
  const tell = async (runId: string, word?: string) => {
    while (!waiting.has(runId)) await sleep(5)
    const hear = waiting.get(runId)
    waiting.delete(runId)
    hear?.(word)
  }
  return { engine, tell }
}

const tokens = 60
/** By how much what comes of timers may differ from one time to the next: a tenth of what one replica adds that asks at each token. */
const slack = tokens / 10
/**
 * What each replica asks every few seconds, whoever talks: which runs nobody carries, who waits, what is old. Eight replicas that
 * started together ask together, so a whole round of it falls into the one time that is counted or into the other.
 */
const ofRounds = '"candidates"|on_trial|purged|session_id as session|delete from kernel_messages'

await describeWith('postgres', 'eight replicas', () => {
  let cluster: Cluster
  beforeAll(async () => {
    cluster = await startCluster({
      shared_preload_libraries: 'pg_stat_statements',
      'pg_stat_statements.track': 'top',
    })
    await cluster.query('create extension pg_stat_statements')
  }, 180_000)
  afterAll(() => cluster?.close())

  const statements = async () => {
    const [row] = await cluster.query<{ calls: string }>(
      `select coalesce(sum(calls), 0) as calls from pg_stat_statements
        where query ~ 'kernel_runs|kernel_run_events|pg_notify|strpos|listen|kernel_messages'
          and query !~ '${ofRounds}'`,
    )
    return Number(row?.calls)
  }

  const kinds: Kind[] = ['none', 'redis', 'nats']
  for (const kind of kinds)
    describe(kind === 'none' ? 'without a bus' : `with ${kind}`, () => {
      /** Replicas with a database of their own, whose messages are counted on the wire to each. */
      async function fleet(size: number, { everyMs = 60_000, isCounted = true } = {}) {
        const name = `fleet_${kind}_${size}_${Math.random().toString(36).slice(2)}`
        await cluster.query(`create database ${name}`)
        const target = cluster.url.replace('/postgres', `/${name}`)
        const bus = kind === 'none' ? undefined : await startBus(kind, onTestFinished)
        const { engine, tell } = dictated()
        const members = []
        for (let i = 0; i < size; i++) {
          const byDatabase = countingNotifications()
          const byBus = counting(kind)
          const wire = await flakyWire(target, byDatabase.onAnswer)
          const busWire = bus && isCounted ? await flakyWire(bus.url, byBus.onAnswer) : undefined
          for (const each of [wire, busWire]) if (each) onTestFinished(() => each.close())
          const server = await startServer({
            engine,
            // Eight replicas in one process hold each other up, and nobody here takes a run over.
            leaseMs: 120_000,
            databaseUrl: wire.url,
            busUrl: (busWire ?? bus)?.url,
            selfTest: { everyMs, patienceMs: 1_000 },
          })
          onTestFinished(() => server.close())
          const way = kind === 'none' ? 'direct' : 'bus'
          while (server.store.listening() !== way) await sleep(20)
          members.push({ server, count: () => (kind === 'none' ? byDatabase : byBus).take() })
        }
        return { members, tell, bus, servers: members.map(({ server }) => server) }
      }

      /** What a stream of words costs: statements, and messages that replicas other than its own are sent. */
      async function cost(size: number, followers: number) {
        const { members, servers, tell } = await fleet(size)
        const [carrier] = servers as [Replica]
        const sessionId = await carrier.session()
        const turn = await carrier.stream(`/messages/${sessionId}`, { message: 'Talk' })
        const runId = turn.headers.get('x-run-id') ?? ''
        const reading = []
        for (const server of servers.slice(1, 1 + followers))
          reading.push(await server.stream(`/runs/${runId}?after=0`))
        await tell(runId, 'first ')
        for (const each of reading)
          await each.until(({ data }) => String(data.content).startsWith('first'))
        await sleep(1_500) // the last words of the beginning: checks of all replicas, and a batch
        const before = { statements: await statements(), each: members.map(({ count }) => count()) }
        const began = performance.now()
        for (let i = 0; i < tokens; i++) {
          await tell(runId, `${i} `)
          await sleep(10)
        }
        for (const each of reading)
          await each.until(({ data }) => String(data.content).endsWith(`${tokens - 1} `))
        const after = { statements: await statements(), each: members.map(({ count }) => count()) }
        const tookMs = performance.now() - began
        // What the timers of so many replicas ask in so much time, with the run open and nothing said.
        await sleep(1_500)
        const quiet = await statements()
        await sleep(tookMs)
        const ofTimers = (await statements()) - quiet
        await tell(runId)
        await turn.rest()
        const told = after.each.map((count, i) => count - (before.each[i] ?? 0))
        return { statements: after.statements - before.statements - ofTimers, told }
      }

      it('cost no more than two where nobody follows, and are told nothing of a stream', async () => {
        const two = await cost(2, 0)
        const eight = await cost(8, 0)
        expect(eight.told.slice(1)).toEqual(eight.told.slice(1).map(() => 0))
        expect(two.told.slice(1)).toEqual([0])
        expect(eight.statements).toBeLessThanOrEqual(two.statements + slack)
      })

      it('tell a stream to those who follow it, and to nobody else', async () => {
        const { told } = await cost(8, 2)
        const [, one = 0, two = 0, ...others] = told
        expect(one).toBeGreaterThan(0)
        expect(one).toBe(two)
        // A message brings what has been said since the one before.
        expect(one).toBeLessThanOrEqual(tokens + slack)
        expect(others).toEqual(others.map(() => 0))
      })

      if (kind !== 'none')
        it('bring 50 streams to their end, each event once and in order, when the bus is killed and comes back', async () => {
          const { servers, tell, bus } = await fleet(8, { everyMs: 1_000, isCounted: false })
          const allAre = async (way: string, isUp: boolean) => {
            while (!servers.every(({ store }) => store.listening() === way)) await sleep(20)
            for (const { store } of servers) expect(store.bus()).toMatchObject({ kind, isUp })
          }
          const [carrier, ...others] = servers as [Replica, ...Replica[]]
          const streams = await Promise.all(
            Array.from({ length: 50 }, async (_, i) => {
              const sessionId = await carrier.session()
              const turn = await carrier.stream(`/messages/${sessionId}`, { message: 'Talk' })
              const runId = turn.headers.get('x-run-id') ?? ''
              const at = others[i % others.length] ?? carrier
              return { runId, reading: await at.stream(`/runs/${runId}?after=0`) }
            }),
          )
          const words = Array.from({ length: 30 }, (_, i) => `word${i} `)
          const ends = streams.map(({ reading }) => reading.rest())
          for (const [i, word] of words.entries()) {
            if (i === 10) await bus?.kill()
            if (i === 20) {
              await allAre('direct', false)
              await bus?.startAgain()
            }
            await Promise.all(streams.map(({ runId }) => tell(runId, word)))
            await sleep(20)
          }
          await allAre('bus', true)
          // The bus of before is used again: it brings what is said from here on.
          const last = 'and so on'
          await Promise.all(streams.map(({ runId }) => tell(runId, last)))
          await Promise.all(streams.map(({ runId }) => tell(runId)))
          for (const events of await Promise.all(ends)) {
            const said = events.filter(({ event }) => event === 'message')
            expect(said.map(({ data }) => data.content).join('')).toBe(words.join('') + last)
            const ids = events.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]))
            expect(ids).toEqual([...new Set(ids)].sort((a, b) => a - b))
            expect(events.at(-1)?.data.status).toBe('finished')
          }
        })
    })
})
