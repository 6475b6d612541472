/**
 * Measures what docs/decisions/speed.md sets goals for: the CPU of a turn and of a new session beside the hand-written loop, a burst
 * of new chats, the time to the first word, the pages that a turn writes and the memory after twenty chats. Each is measured
 * on SQLite, and with BENCH_DATABASE_URL on PostgreSQL too, in rounds that alternate. With BENCH_GATE=1 a missed
 * goal ends the process with 1. Arguments: names of measures, by default all. `npm run bench first` measures the first chat of a process.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { alternating, cpuOf, firstWord, sessionCpu, turnCpu } from './support/rounds.ts'
import { median } from './support/target.ts'
import { allEnded, Server, start } from './support/turn-client.ts'

const chosen = process.argv.slice(2).filter((name) => !name.startsWith('-'))
const rounds = 7
const warmUp = 300
const burst = { chats: 500, words: 60, paceMs: 100 }
/** What a frame of the log has beside its page, and the size of a page. */
const walFrame = 24 + 4096

/** The address of PostgreSQL is for one of the servers alone. */
const onSqlite = { BENCH_DATABASE_URL: '' }

/**
 * What `npm start` gives its process: without it V8 and glibc keep half as much again, and Node's translator of TypeScript
 * stays in memory.
 */
const asStarted = {
  NODE_COMPILE_CACHE: join(tmpdir(), 'node-compile-cache'),
  NODE_OPTIONS: '--max-semi-space-size=8',
  MALLOC_ARENA_MAX: '1',
  BENCH_PREBUILT: '1',
}

/** The servers: the hand-written loop, and the runtime on each database. */
type Name = 'loop' | 'SQLite' | 'PostgreSQL'
type Goals = Partial<Record<Name, number>>

const folder = mkdtempSync(join(tmpdir(), 'bench-speed-'))
const missed: string[] = []

/** Prints one row: a figure for each server, its goal, and whether the figure misses it. */
function row(what: string, unit: string, figures: ReadonlyMap<Name, number>, goals: Goals): void {
  const cells = [...figures].map(([name, figure]) => {
    const goal = goals[name]
    const isMissed = goal !== undefined && !(figure <= goal)
    if (isMissed) missed.push(`${what}, ${name}`)
    const told = goal === undefined ? '' : ` (goal ${goal}${isMissed ? ', MISSED' : ''})`
    return `${name} ${figure.toFixed(2)} ${unit}${told}`
  })
  console.log(`${what}: ${cells.join(', ')}`)
}

type Servers = ReadonlyMap<Name, Server>

/** The same figures as multiples of the loop's. */
function beside(figures: ReadonlyMap<Name, number>): Map<Name, number> {
  const loop = figures.get('loop') ?? NaN
  return new Map([...figures].filter(([name]) => name !== 'loop').map(([n, f]) => [n, f / loop]))
}

const measures: Record<string, (servers: Servers) => Promise<void>> = {
  async turn(servers) {
    const figures = await alternating(servers, turnCpu, rounds)
    row('CPU of a three-tool turn, one client', 'ms', figures, {})
    row('  of the loop', 'times', beside(figures), { SQLite: 2.5, PostgreSQL: 3 })
  },

  async sixteen(servers) {
    const turns = 96
    const measure = (server: Server) => {
      const client = async () => {
        for (let n = 0; n < turns / 16; n++)
          for (const session of await server.sessions(1)) await server.turn(session, 'weather')
      }
      return cpuOf(server, turns, () => Promise.all(Array.from({ length: 16 }, client)))
    }
    const figures = await alternating(servers, measure, rounds)
    row('CPU of a turn and its new session, 16 clients', 'ms', figures, {})
    row('  of the loop', 'times', beside(figures), { SQLite: 4 })
  },

  async session(servers) {
    const goals = { SQLite: 0.25, PostgreSQL: 0.4 }
    const figures = await alternating(servers, sessionCpu(1), rounds)
    row('CPU of POST /sessions, one after the other', 'ms', figures, goals)
    const atOnce = await alternating(servers, sessionCpu(16), rounds)
    row('  sixteen at once', 'ms', atOnce, goals)
  },

  async firstWord(servers) {
    const figures = await alternating(servers, firstWord, rounds)
    row('time to the first word, the model at once', 'ms', figures, { PostgreSQL: 4.5 })
  },

  async burst(servers) {
    const { chats, words, paceMs } = burst
    const parts = { wall: new Map<Name, number>(), made: new Map(), late: new Map() }
    for (const [name, server] of servers) {
      const made: number[] = []
      const late: number[] = []
      // The pages are open: to connect 500 sockets costs this client more than what is measured.
      await Promise.all(Array.from({ length: chats }, () => server.sessions(1)))
      await sleep(500)
      const began = performance.now()
      const chat = async () => {
        const from = performance.now()
        const [session = ''] = await server.sessions(1)
        made.push(performance.now() - from)
        const { wordsAt } = await server.turn(session, `talk ${words} ${paceMs}`)
        const [first = NaN] = wordsAt
        for (const [nth, at] of wordsAt.entries()) late.push(at - first - nth * paceMs)
      }
      await Promise.all(Array.from({ length: chats }, chat))
      parts.wall.set(name, (performance.now() - began) / 1000)
      parts.made.set(name, median(made))
      parts.late.set(name, late.sort((a, b) => a - b)[Math.floor(late.length * 0.99)])
    }
    const ideal = ((words - 1) * paceMs) / 1000
    row(`${chats} new chats at once, ideal ${ideal} s`, 's', parts.wall, { SQLite: 7.5 })
    row('  POST /sessions in it, p50', 'ms', parts.made, { SQLite: 60 })
    row('  how late a word is, p99', 'ms', parts.late, { SQLite: 15 })
  },

  async pages(servers) {
    const server = servers.get('SQLite')
    const log = () => statSync(join(folder, 'SQLite', 'oracle.sqlite-wal')).size
    if (!server) return
    // The log grows until the database takes it in, and then begins anew: a round that shrinks it says nothing.
    const figures: number[] = []
    for (let nth = 0; nth < 20; nth++) {
      const before = log()
      for (const session of await server.sessions(1)) await server.turn(session, 'weather')
      await sleep(300)
      if (log() > before) figures.push((log() - before) / walFrame)
    }
    if (figures.length > 0)
      row('pages of a turn with its session', 'pages', new Map([['SQLite', median(figures)]]), {
        SQLite: 12,
      })
    else
      console.log('pages of a turn with its session: the log is written from its beginning again')
  },
}

async function memory(endpoint: number): Promise<void> {
  execFileSync(process.execPath, [join(import.meta.dirname, '../scripts/prebuild.ts')])
  const figures = new Map<Name, number>()
  // What the first process of each compiles, the second one reads from Node's cache.
  for (const nth of [1, 2])
    for (const [name, script, ...args] of [
      ['loop', 'hand-loop.ts', String(endpoint)],
      ['SQLite', 'turn-server.ts', String(endpoint), join(folder, `memory-${nth}`)],
    ] as const) {
      const server = await Server.start(script, args, { ...onSqlite, ...asStarted })
      await sleep(2_000)
      for (const session of await server.sessions(20)) await server.turn(session, 'weather')
      figures.set(name, (await server.usage()).rss / 1e6)
      server.stop()
      await sleep(500) // the process keeps what it compiled as it ends
    }
  row('resident memory after twenty chats', 'MB', figures, { SQLite: 165 })
}

async function bench(): Promise<void> {
  const unknown = chosen.filter((name) => name !== 'memory' && !(name in measures))
  if (unknown.length > 0) throw new Error(`There is no measure called ${unknown.join(', ')}.`)
  const isChosen = (name: string) => chosen.length === 0 || chosen.includes(name)
  const { port } = await start('endpoint.ts', [])
  if (isChosen('memory')) await memory(port)
  const own = [String(port), join(folder, 'SQLite')]
  const servers = new Map<Name, Server>([
    ['loop', await Server.start('hand-loop.ts', [String(port)])],
    ['SQLite', await Server.start('turn-server.ts', own, onSqlite)],
  ])
  const url = process.env.BENCH_DATABASE_URL
  if (url) {
    const shared = [String(port), join(folder, 'PostgreSQL')]
    servers.set('PostgreSQL', await Server.start('turn-server.ts', shared))
  } else console.log('PostgreSQL is not measured: BENCH_DATABASE_URL is not set.')
  await sleep(2_000) // the runtime imports its large modules after it listens
  if (isChosen('pages')) await measures.pages?.(servers)
  for (const server of servers.values()) await server.cost(await server.sessions(warmUp / 10), 10)
  for (const [name, measure] of Object.entries(measures))
    if (name !== 'pages' && isChosen(name)) await measure(servers)
  for (const server of servers.values()) server.stop()
}

try {
  await bench()
  if (missed.length > 0) console.log(`missed: ${missed.join('; ')}`)
  if (missed.length > 0 && process.env.BENCH_GATE === '1') process.exitCode = 1
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
