/**
 * Measures what is under every turn: the hand-written loop, the same through LangGraph, the same with a turn's rows in SQLite and
 * the disk's word for them, and the runtime, which does all of that and what it is for. The CPU of a three-tool turn,
 * in rounds that alternate. Arguments: how many rounds, by default nine.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from './support/target.ts'
import { allEnded, Server, start } from './support/turn-client.ts'

const rounds = Number(process.argv[2] ?? 9)
const warmUp = 300
const onSqlite = { BENCH_DATABASE_URL: '' }
const folder = mkdtempSync(join(tmpdir(), 'bench-floor-'))

/** A file of SQLite in which a server of the runtime has taken a turn. */
async function fileWithTurn(model: string): Promise<string> {
  const server = await Server.start('turn-server.ts', [model, join(folder, 'floor')], onSqlite)
  for (const session of await server.sessions(1)) await server.turn(session, 'weather')
  await server.usage('rest')
  server.stop()
  await allEnded()
  return join(folder, 'floor', 'oracle.sqlite')
}

async function bench(): Promise<void> {
  const template = String((await start('endpoint.ts', [])).port)
  const file = await fileWithTurn(template)
  const model = String((await start('endpoint.ts', [])).port)
  const servers = new Map<string, Server>([
    ['hand-written loop', await Server.start('hand-loop.ts', [model])],
    ['with LangGraph', await Server.start('hand-loop.ts', [model, 'graph'])],
    ['with LangGraph and SQLite', await Server.start('hand-loop.ts', [model, 'graph', file])],
    ['runtime', await Server.start('turn-server.ts', [model, join(folder, 'own')], onSqlite)],
  ])
  await sleep(2_000) // the runtime imports its large modules after it listens
  for (const server of servers.values()) await server.cost(await server.sessions(warmUp / 10), 10)
  const costs = new Map([...servers.keys()].map((name) => [name, [] as number[]]))
  for (let round = 0; round < rounds; round++)
    for (const [name, server] of round % 2 === 0 ? servers : [...servers].toReversed())
      costs.get(name)?.push(await server.cost(await server.sessions(5), 8))
  const loop = median(costs.get('hand-written loop') ?? [])
  for (const [name, all] of costs) {
    const ms = median(all)
    console.log(`${name}: ${ms.toFixed(2)} ms, ${(ms / loop).toFixed(2)} of the loop`)
  }
  for (const server of servers.values()) server.stop()
}

try {
  await bench()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
