/**
 * Measures what a server holds: with 10,000 idle sessions, with 2,000 open streams, and over an hour of turns that is compressed by
 * rate: 18,000 turns, five a second for an hour, as fast as they go. The heap is read after its garbage was collected. With
 * BENCH_GATE=1 a heap that grows ends the process with 1. Argument: how many turns the hour has.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from './support/target.ts'
import { allEnded, Server, start } from './support/turn-client.ts'

const turns = Number(process.argv[2] ?? 18_000)
const idle = 10_000
const streams = 2_000
const clients = 16
/** How often within the hour the heap is read, and by how much the last third may lie above the one before. */
const [readings, mostGrowth] = [12, 1.05]
/** So long a stream says a word a second, and so long it takes at most until all are open. */
const stream = { words: 40, everyMs: 1_000, openMs: 30_000 }

const folder = mkdtempSync(join(tmpdir(), 'bench-soak-'))
const mb = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`

/** Has `work` done `count` times, by so many clients at once. */
async function many(count: number, atOnce: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const client = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: atOnce }, client))
}

async function held(server: Server, what: string): Promise<number> {
  const { heap, rss } = await server.usage('gc')
  console.log(`${what}: heap ${mb(heap)}, resident ${mb(rss)}`)
  return heap
}

/** Opens the streams, reads what the server holds while all of them speak, and waits for their ends. */
async function openStreams(server: Server): Promise<void> {
  let speaking = 0
  const one = async () => {
    const [session = ''] = await server.sessions(1)
    await server.turn(session, `talk ${stream.words} ${stream.everyMs}`, () => speaking++)
  }
  const all = Promise.all(Array.from({ length: streams }, one))
  for (let ms = 0; speaking < streams && ms < stream.openMs; ms += 100) await sleep(100)
  await held(server, `${speaking} open streams`)
  await all
}

async function soak(server: Server): Promise<void> {
  const heaps: number[] = []
  let session: string | undefined
  // Ten turns a conversation: some are new, some go on.
  let nth = 0
  const turn = async () => {
    const here = nth++ % 10 === 0 ? undefined : session
    const [id = ''] = here === undefined ? await server.sessions(1) : [here]
    session = undefined
    await server.turn(id, 'weather')
    session = id
  }
  for (let reading = 1; reading <= readings; reading++) {
    await many(turns / readings, clients, turn)
    heaps.push(await held(server, `${Math.round((turns / readings) * reading)} turns`))
  }
  const third = readings / 3
  const [before, last] = [heaps.slice(third, 2 * third), heaps.slice(2 * third)].map(median)
  const growth = (last ?? NaN) / (before ?? NaN)
  const isMissed = !(growth <= mostGrowth)
  console.log(
    `the last third of the hour, to the one before: ${growth.toFixed(3)} (goal ${mostGrowth}${isMissed ? ', MISSED' : ''})`,
  )
  if (isMissed && process.env.BENCH_GATE === '1') process.exitCode = 1
}

try {
  const { port } = await start('endpoint.ts', [])
  const server = await Server.start('turn-server.ts', [String(port), folder], {
    BENCH_DATABASE_URL: '',
  })
  await sleep(2_000) // the runtime imports its large modules after it listens
  await server.cost(await server.sessions(30), 10)
  await held(server, 'warm')
  await many(idle, clients, () => server.sessions(1))
  await held(server, `${idle} idle sessions`)
  await openStreams(server)
  await held(server, 'after the streams')
  await soak(server)
  server.stop()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
