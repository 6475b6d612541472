import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { testApp, type TestUser } from '#core/testing'
import type { Model } from '#core'
import { stallsDuring, toldStalls } from '../test/support/stalls.ts'

/**
 * Has 50 chats stream from a server on a large SQLite file, and says for how long the event loop of the server stood still
 * at most: while nothing else happens, and while `oracle-runtime backup` copies the database.
 */
const chats = 50
const megabytes = Number(process.env.BENCH_MB ?? 120)
const wordMs = 20

const folder = mkdtempSync(join(tmpdir(), 'bench-backup-'))
const dataDir = join(folder, '.data')

/** A model that says a word every now and then, as a real one does. */
const model: Model = {
  id: 'words',
  label: 'Words',
  async *stream() {
    for (let word = 0; word < 50; word++) {
      await sleep(wordMs)
      yield { type: 'text', text: `word ${word} ` }
    }
  },
}
const env = { DATA_DIR: dataDir, TURNS_PER_DAY: '1000000', RATE_LIMIT_PER_MINUTE: '1000000' }

function fill(): void {
  const database = new DatabaseSync(join(dataDir, 'oracle.sqlite'))
  database.exec(`create table large (id integer primary key, body blob);
    with recursive n (i) as (select 1 union all select i + 1 from n where i < ${megabytes * 50})
    insert into large (body) select randomblob(20000) from n; pragma wal_checkpoint(truncate)`)
  database.close()
}

/** Does something while all chats stream; prints how long the event loop stood still meanwhile. */
async function during(what: string, work: () => Promise<unknown>): Promise<void> {
  const began = performance.now()
  const stalls = await stallsDuring(work)
  console.log(`${what}: ${Math.round(performance.now() - began)} ms; ${toldStalls(stalls)}`)
}

async function command(): Promise<void> {
  const bin = new URL('../cli/bin.js', import.meta.url).pathname
  const child = spawn(process.execPath, [bin, 'backup', join(folder, 'copy.sqlite')], {
    env: { PATH: process.env.PATH, DATA_DIR: dataDir },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const [code] = await once(child, 'close')
  if (code !== 0) throw new Error(`The backup ended with ${code}.`)
}

async function streaming(work: () => Promise<void>): Promise<void> {
  await using app = await testApp({ plugins: [], model, env })
  let isOver = false
  let turns = 0
  const talk = async (user: TestUser) => {
    const { sessionId } = await user.say('Hello')
    while (!isOver) {
      await user.say('And then?', { sessionId })
      turns++
    }
  }
  const users = await Promise.all(Array.from({ length: chats }, () => app.user()))
  const talks = users.map(talk)
  while (turns < chats) await sleep(50)
  await work()
  isOver = true
  await Promise.all(talks)
}

try {
  await (await testApp({ plugins: [], env })).close()
  fill()
  console.log(
    `${chats} chats, a database of ${Math.round(statSync(join(dataDir, 'oracle.sqlite')).size / 1e6)} MB`,
  )
  await streaming(async () => {
    await during('nothing else', () => sleep(5_000))
    await during('oracle-runtime backup', command)
    await during('nothing else, again', () => sleep(5_000))
  })
} finally {
  rmSync(folder, { recursive: true, force: true })
}
