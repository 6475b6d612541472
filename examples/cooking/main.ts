import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { createApp } from '#core'
import registry from '../../plugins/registry/index.ts'
import { callTo, seed } from './seed.ts'

// npm run example:cooking: a clean-cooking project in the running server, or, where none runs, in one of its own.
const { DATA_DIR = '.data', HOST = '127.0.0.1', PORT = '3000' } = process.env
const address = process.argv[2] ?? `http://${HOST}:${PORT}`
const answers = await fetch(address).then(
  ({ ok }) => ok,
  () => false,
)
let server = address
if (!answers) {
  console.log(`No server answers at ${address}: this process is one.`)
  const app = await createApp({ plugins: [registry], env: { LOG_LEVEL: 'warn', ...process.env } })
  server = (await app.listen()).url
  console.log(`listening on ${server}`)
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => void app.close().then(() => process.exit(0)))
}
try {
  await seed(callTo(server, apiKey()), console.log)
  console.log(`\nThere it is. docs/registry.md walks through it at ${server}.`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}

/** The key in the environment, or the one that the server made for its development. */
function apiKey(): string {
  if (process.env.API_KEY) return process.env.API_KEY
  try {
    return parseEnv(readFileSync(join(DATA_DIR, 'dev.env'), 'utf8')).API_KEY ?? ''
  } catch {
    console.error(`Set API_KEY: there is none in ${join(DATA_DIR, 'dev.env')}.`)
    process.exit(2)
  }
}
