/**
 * Measures memory on people that a seed makes up: what the rules notice, what a question finds beside four baselines, what must
 * never be kept or shown, and how long it takes. It runs on SQLite, and on PostgreSQL where BENCH_DATABASE_URL names one; an
 * argument chooses of sqlite, postgres and turns. The rules were written without the people of the second seed.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import memory from '../plugins/memory/index.ts'
import type { Remembering } from '../plugins/memory/remembering.ts'
import { people } from './memory/people.ts'
import { quality, tell } from './memory/quality.ts'
import { beforeFirstToken, recall } from './memory/speed.ts'
import { turns } from './memory/turns.ts'

const seeds = [
  Number(process.env.BENCH_SEED ?? 7),
  Number(process.env.BENCH_SEED_HELD_OUT ?? 20_011),
]
const persons = 60

async function measure(name: string, env: Readonly<Record<string, string>>): Promise<void> {
  let self: Remembering | undefined
  const keep = (made: Remembering) => (self = made)
  const probe = definePlugin({
    name: 'memory-probe',
    version: '1.0.0',
    summary: 'Hands the parts of memory to the bench.',
    requires: [memory],
    setup: ({ plugins }) => void keep(plugins.memory),
  })
  await using app = await testApp({ plugins: [memory, probe], env })
  if (!self) throw new Error(`${app.url} has no memory.`)
  for (const [i, seed] of seeds.entries()) {
    console.log(`## ${name}, seed ${seed}${i > 0 ? ', held out' : ''}, ${persons} people\n`)
    const all = people(persons, seed).map((one) => ({ ...one, did: `${one.did}:${seed}` }))
    await tell(self, all)
    await quality(self, all)
    for (const { did } of all) await self.eraseAll(did, true)
  }
  console.log(`## ${name}, time\n`)
  await beforeFirstToken(self, seeds[0] ?? 7)
  await recall(self, seeds[0] ?? 7)
}

const folder = mkdtempSync(join(tmpdir(), 'bench-memory-'))
try {
  const url = process.env.BENCH_DATABASE_URL
  const parts = {
    sqlite: () => measure('SQLite', { DATA_DIR: folder }),
    postgres: async () => url && measure('PostgreSQL', { DATABASE_URL: url }),
    turns,
  }
  const chosen = process.argv[2]?.split(',')
  for (const [name, part] of Object.entries(parts))
    if (!chosen || chosen.includes(name)) await part()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
