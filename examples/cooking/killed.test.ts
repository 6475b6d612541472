import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { onEachDatabase } from '../../test/support/each-database.ts'
import { startServer, type ServerProcess } from '../../test/support/process.ts'
import { check } from '../../test/support/cooking.ts'
import { type Call, callTo } from './seed.ts'

const keys = 'amina:key-of-amina,ben:key-of-ben'

/** How often the server dies on each database; KILLS in the environment asks for more. */
const kills = Number(process.env.KILLS ?? 4)
/** Each life says its moment, so that a failure can be played again: KILL_SEED is what the failure names. */
const seed = Number(process.env.KILL_SEED ?? Date.now() % 1_000_000)
/** The longest life of a server that dies, from the moment it listens: a whole run is over by then. */
const longestMs = 2500

/** Numbers from 0 to 1 that a seed fixes. */
function* numbersFrom(start: number): Generator<number, never> {
  for (let state = start >>> 0; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    yield state / 2 ** 32
  }
}

/** The claims that neither are decided nor wait for a person. */
async function undecided(call: Call) {
  const { items } = await call('GET', '/v1/claims?limit=100')
  return items
    .filter(({ status, review }: Claim) => status === 'submitted' && review?.state !== 'asked')
    .map(({ subject }: Claim) => subject)
}

interface Claim {
  readonly status: string
  readonly subject: string
  readonly review?: { readonly state: string }
}

await onEachDatabase('a server that is killed at any moment', (where) => {
  const moments = numbersFrom(seed)
  const title = `evaluates each claim once and mints each credit once (KILL_SEED=${seed})`
  it(title, { timeout: 60_000 + kills * 15_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'oracle-cooking-'))
    const env = {
      API_KEY: keys,
      DATA_DIR: folder,
      HOST: '127.0.0.1',
      RUN_LEASE_MS: '1000',
      ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
    }
    let server: ServerProcess | undefined
    try {
      for (let life = 0; life < kills; life++) {
        server = startServer('examples/cooking/main.ts', env)
        await server.url
        await setTimeout(moments.next().value * longestMs)
        await server.end('SIGKILL')
      }
      server = startServer('examples/cooking/main.ts', env)
      const url = await server.url
      await expect.poll(() => server!.output(), { timeout: 60_000 }).toContain('There it is.')
      const call = callTo(url, 'key-of-amina')
      await expect.poll(() => undecided(call), { timeout: 30_000 }).toEqual([])
      // A turn that was under way at two deaths is not begun again: a person decides what the agent would have.
      const { items } = await call('GET', '/v1/claims?review=asked')
      const asked = items.map(({ subject }: { subject: string }) => subject)
      expect(['', 'did:ixo:cooking:stove-7']).toContain(asked.join())
      await check(call, undefined, asked.length > 0)
    } finally {
      await server?.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
