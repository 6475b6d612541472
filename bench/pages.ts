/**
 * Counts the pages that turns write to the log of SQLite, by the table or index that each page belongs to: the newest frames of
 * the log say which pages, and SQLite itself says whose these are. Counts do not depend on what else the machine does.
 * The argument: how many turns to count, by default 40. A turn has three calls of a tool and a session of its own.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { allEnded, Server, start } from './support/turn-client.ts'

const turns = Number(process.argv[2] ?? 40)
/** What is written beside a turn comes so soon after it. */
const settledMs = 250
/** So many turns come first: tables of one page grow. */
const warmUp = 20
/** What stands before the frames of a log, and before the page of each. */
const header = { log: 32, frame: 24 }

const folder = mkdtempSync(join(tmpdir(), 'bench-pages-'))
const file = join(folder, 'oracle.sqlite')

/** One page that was written: its number, and whether a transaction ends with it. */
interface Frame {
  readonly page: number
  readonly isLast: boolean
}

/** The frames of the log that belong to its present run: older ones have another salt. */
function frames(): Frame[] {
  const log = readFileSync(`${file}-wal`)
  const size = log.readUInt32BE(8)
  const found: Frame[] = []
  for (let at = header.log; at + header.frame + size <= log.length; at += header.frame + size) {
    if (log.compare(log, 16, 24, at + 8, at + 16) !== 0) break
    found.push({ page: log.readUInt32BE(at), isLast: log.readUInt32BE(at + 4) > 0 })
  }
  return found
}

/** Whose each page is. */
function owners(): Map<number, string> {
  const database = new DatabaseSync(file, { readOnly: true })
  const rows = database.prepare('select pageno, name, pagetype from dbstat').all()
  database.close()
  return new Map(
    rows.map(({ pageno, name, pagetype }) => [
      Number(pageno),
      `${name}${pagetype === 'overflow' ? ' (overflow)' : ''}`,
    ]),
  )
}

/** The frames that some work writes, with those that come soon after it. */
async function counted(work: () => Promise<void>): Promise<Frame[]> {
  const before = frames().length
  await work()
  let all = frames()
  for (let seen = -1; seen < all.length; all = frames()) {
    seen = all.length
    await sleep(settledMs)
  }
  if (all.length < before) throw new Error('The log began anew while it was counted.')
  return all.slice(before)
}

const transactionsIn = (list: readonly Frame[]) => list.filter(({ isLast }) => isLast).length

/**
 * Prints the pages of a turn, of the turns that had the fewest transactions: on a busy machine some turns take so long that what they
 * have told so far is written before their end.
 */
function print(what: string, lists: readonly (readonly Frame[])[]): void {
  const fewest = Math.min(...lists.map(transactionsIn))
  const counted = lists.filter((list) => transactionsIn(list) === fewest)
  const whose = owners()
  const counts = new Map<string, number>()
  for (const { page } of counted.flat()) {
    const name = whose.get(page) ?? 'the map of pages'
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  const each = (count: number) => (count / counted.length).toFixed(2)
  console.log(
    `${what}: ${each(counted.flat().length)} pages in ${fewest} transactions (${counted.length} of ${lists.length} turns)`,
  )
  for (const [name, count] of [...counts].toSorted((a, b) => b[1] - a[1]))
    console.log(`  ${each(count)} ${name}`)
}

try {
  const { port } = await start('endpoint.ts', [])
  const server = await Server.start('turn-server.ts', [String(port), folder], {
    BENCH_DATABASE_URL: '',
  })
  await sleep(2_000) // the runtime imports its large modules after it listens
  for (const session of await server.sessions(warmUp)) await server.turn(session, 'weather')
  await sleep(1_000)
  const made: string[] = []
  const first: Frame[][] = []
  const next: Frame[][] = []
  for (let nth = 0; nth < turns; nth++)
    first.push(
      await counted(async () => {
        const [session = ''] = await server.sessions(1)
        made.push(session)
        await server.turn(session, 'weather')
      }),
    )
  for (const session of made)
    next.push(
      await counted(async () => {
        await server.turn(session, 'weather')
      }),
    )
  print('a turn with its session', first)
  print('a further turn', next)
  server.stop()
} finally {
  await allEnded()
  rmSync(folder, { recursive: true, force: true })
}
