import { setTimeout as sleep } from 'node:timers/promises'
import { startCluster } from '../test/support/cluster.ts'
import { say } from '../test/support/fake-engines.ts'
import { startBus } from '../test/support/bus-process.ts'
import { startServer } from '../test/support/server.ts'
import type { Engine } from '../core/runtime/turns/run.ts'

// What a fleet asks of its database: statements a token, a turn and an idle second, by the number of replicas and by what
// carries their words. Counts, not times: they are the same on any machine. Needs PostgreSQL, and NATS and Redis beside it.
const tokens = 100
const pauseMs = 20
const idleMs = 5_000

/** Says so many words with a pause between. A fake of the engine. */
const talking: Engine = async (run) => {
  let said = ''
  for (let i = 0; i < tokens; i++) {
    await sleep(pauseMs)
    run.emit('message', { content: `${i} ` })
    said += `${i} `
  }
  await say(run, said)
  return { status: 'finished' }
}

const cluster = await startCluster({ shared_preload_libraries: 'pg_stat_statements' })
await cluster.query('create extension pg_stat_statements')
const stops: (() => Promise<void>)[] = []
const nats = await startBus('nats', (stop) => stops.push(stop))
const buses = { none: undefined, nats: nats.url, redis: 'redis://127.0.0.1:6379' }

/** Statements of all replicas since the last call. */
async function statements(): Promise<number> {
  const [row] = await cluster.query<{ calls: string }>(
    `select coalesce(sum(calls), 0) as calls from pg_stat_statements where query !~ 'pg_stat_statements'`,
  )
  await cluster.query('select pg_stat_statements_reset()')
  return Number(row?.calls ?? 0)
}

console.log('bus    replicas  followers  statements/turn  /token  /replica and idle second')
for (const [bus, busUrl] of Object.entries(buses))
  for (const size of [2, 4, 8])
    for (const followers of [0, 1]) {
      const name = `fleet_${bus}_${size}_${followers}`
      await cluster.query(`create database ${name}`)
      const databaseUrl = cluster.url.replace('/postgres', `/${name}`)
      const servers = []
      for (let i = 0; i < size; i++)
        servers.push(await startServer({ engine: talking, databaseUrl, busUrl }))
      const [carrier, ...others] = servers
      if (!carrier) throw new Error('A fleet has a replica.')
      const sessionId = await carrier.session()
      await sleep(500)
      await statements()
      await sleep(idleMs)
      const idle = (await statements()) / (idleMs / 1000)
      const began = performance.now()
      const turn = await carrier.stream(`/messages/${sessionId}`, { message: 'Talk' })
      const path = `/runs/${turn.headers.get('x-run-id')}?after=0`
      const reading = await Promise.all(others.slice(0, followers).map((each) => each.stream(path)))
      await Promise.all([turn, ...reading].map((each) => each.rest()))
      const seconds = (performance.now() - began) / 1000
      const ofTurn = Math.max(0, (await statements()) - idle * seconds)
      console.log(
        `${bus.padEnd(7)}${String(size).padStart(8)}${String(followers).padStart(11)}` +
          `${ofTurn.toFixed(0).padStart(17)}${(ofTurn / tokens).toFixed(2).padStart(8)}${(idle / size).toFixed(2).padStart(26)}`,
      )
      await Promise.all(servers.map((each) => each.close()))
    }
for (const stop of stops) await stop()
await cluster.close()
