/**
 * Measures what is under the runtime: the hand-written loop, the same through LangGraph, the same with the rows of sessions and turns
 * in a database and the disk's word for them, and the runtime, which does all of that and what it is for. The figures of
 * docs/decisions/speed.md that hang on it, in rounds that alternate, on SQLite and with BENCH_DATABASE_URL on PostgreSQL too.
 * Arguments: how many rounds, by default seven.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { alternating, firstWord, sessionCpu, turnCpu } from './support/rounds.ts'
import { allEnded, Server, start } from './support/turn-client.ts'

const rounds = Number(process.argv[2] ?? 7)
const warmUp = 300
const url = process.env.BENCH_DATABASE_URL
const folder = mkdtempSync(join(tmpdir(), 'bench-floor-'))

/** A database that has the rows of one turn of the runtime: for the floor, which writes the same ones by hand. */
async function databaseWithTurn(address: string): Promise<string> {
  const model = String((await start('endpoint.ts', [])).port)
  const args = [model, join(folder, 'template')]
  const server = await Server.start('turn-server.ts', args, { BENCH_DATABASE_URL: address })
  for (const session of await server.sessions(1)) await server.turn(session, 'weather')
  await server.usage('rest')
  server.stop()
  await allEnded()
  return address || join(folder, 'template', 'oracle.sqlite')
}

/** The servers of one database, from the ground up. */
async function serversOn(name: string, address: string): Promise<Map<string, Server>> {
  const place = await databaseWithTurn(address)
  const model = String((await start('endpoint.ts', [])).port)
  const own = [model, join(folder, name)]
  return new Map([
    ['hand-written loop', await Server.start('hand-loop.ts', [model])],
    ['with LangGraph', await Server.start('hand-loop.ts', [model, 'graph'])],
    [`with LangGraph and ${name}`, await Server.start('hand-loop.ts', [model, 'graph', place])],
    ['runtime', await Server.start('turn-server.ts', own, { BENCH_DATABASE_URL: address })],
  ])
}

async function bench(name: string, address: string): Promise<void> {
  const servers = await serversOn(name, address)
  await sleep(2_000) // the runtime imports its large modules after it listens
  for (const server of servers.values()) await server.cost(await server.sessions(warmUp / 10), 10)
  for (const [what, measure] of [
    ['CPU of a three-tool turn', turnCpu],
    ['CPU of POST /sessions, one after the other', sessionCpu(1)],
    ['CPU of POST /sessions, sixteen at once', sessionCpu(16)],
    ['time to the first word', firstWord],
  ] as const) {
    console.log(`${what}, ${name}`)
    const figures = await alternating(servers, measure, rounds)
    const loop = figures.get('hand-written loop') ?? NaN
    for (const [server, ms] of figures)
      console.log(`  ${server}: ${ms.toFixed(2)} ms, ${(ms / loop).toFixed(2)} of the loop`)
  }
  for (const server of servers.values()) server.stop()
  await allEnded()
}

try {
  await bench('SQLite', '')
  if (url) await bench('PostgreSQL', url)
  else console.log('PostgreSQL is not measured: BENCH_DATABASE_URL is not set.')
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
