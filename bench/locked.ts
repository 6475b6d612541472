import { z } from 'zod'
import { createApp, definePlugin } from '#core'
import { createWallet } from '../core/testing/wallet.ts'
import { beTarget, median, Target } from './support/target.ts'

// Measures the server CPU of an authenticated request with a warm cache, beside the same public request on the same server.
const rounds = 15
const perRound = 8000
const input = z.object({ city: z.string().min(1) })

async function serve() {
  const run = ({ city }: z.output<typeof input>) => ({
    ok: true,
    city,
    temp_c: 21.4,
    conditions: 'clear',
  })
  const plugin = definePlugin({
    name: 'bench',
    summary: 'One route, locked and open.',
    routes: {
      'GET /open': { auth: 'public', input, run },
      'GET /locked': { input, run },
    },
  })
  const plenty = '1000000000'
  const env = {
    DATA_DIR: ':memory:',
    ORACLE_MNEMONIC: mnemonic,
    LOG_LEVEL: 'warn',
    RATE_LIMIT_PER_MINUTE: plenty,
    CALLS_PER_MINUTE: plenty,
  }
  beTarget(
    (await createApp({ plugins: [plugin], env }).listen({ port: 0, host: '127.0.0.1' })).port,
  )
}

const mnemonic = 'the words of a bench'

async function measure() {
  const target = await new Target(import.meta.filename, 'serve').start()
  try {
    const { did } = (await (
      await fetch(`http://127.0.0.1:${target.port}/.well-known/oracle.json`)
    ).json()) as { did: string }
    const wallet = await createWallet()
    const credentials = Object.entries(await wallet.headers(did)).map(
      ([name, value]) => `${name}: ${value}\r\n`,
    )
    const request = (path: string, headers = '') =>
      `GET ${path}?city=Lusaka HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n`
    // `open` is a public request with the same headers, because reading headers costs time in Node itself.
    const kinds = {
      bare: request('/open'),
      open: request('/open', credentials.join('')),
      locked: request('/locked', credentials.join('')),
    }
    const taken = { bare: [] as number[], open: [] as number[], locked: [] as number[] }
    for (const text of Object.values(kinds)) await target.round(text, perRound)
    for (let i = 0; i < rounds; i++)
      for (const [kind, text] of Object.entries(kinds))
        taken[kind as keyof typeof taken].push(await target.round(text, perRound))
    const ratio = (of: number[]) =>
      median(taken.locked.map((locked, i) => locked / of[i]!)).toFixed(2)
    console.log(`public:                    ${median(taken.bare).toFixed(1)} µs CPU per request`)
    console.log(`public, same headers:      ${median(taken.open).toFixed(1)} µs`)
    console.log(
      `authenticated, warm cache: ${median(taken.locked).toFixed(1)} µs, ${ratio(taken.open)} ` +
        `times the public one with the same headers (goal: at most 1.25), ${ratio(taken.bare)} ` +
        'times the bare one',
    )
  } finally {
    target.process.kill()
  }
}

if (process.argv[2] === 'serve') await serve()
else await measure()
