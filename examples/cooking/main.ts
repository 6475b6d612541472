import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { createApp } from '#core'
import registry from '../../plugins/registry/index.ts'
import { analyst } from './analyst.ts'
import { callTo, seed } from './seed.ts'

// npm run example:cooking [http://…]: creates a clean-cooking project in the running server, or else in a server of its own.
if (existsSync('.env')) process.loadEnvFile() // the server reads the same file
const { DATA_DIR = '.data', HOST = '127.0.0.1', PORT = '3000' } = process.env
const named = process.argv[2]
const address = named ?? `http://${HOST}:${PORT}`

try {
  const server = (await answers(address)) ? address : await startOne()
  const [first = '', second] = keys()
  await seed(callTo(server, first), second ? callTo(server, second) : undefined, console.log)
  if (!second)
    console.log('Two people make it whole: start with API_KEY=amina:<key>,ben:<another key>.')
  console.log(`\nThere it is. docs/registry.md walks through it at ${server}.`)
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )
}

async function startOne(): Promise<string> {
  if (named) throw new Error(`No server answers at ${named}.`)
  console.log(`No server answers at ${address}: this process is one, until Ctrl-C.`)
  const app = await createApp({
    plugins: [registry],
    ...(process.env.MODEL === undefined && { model: analyst }),
    env: { LOG_LEVEL: 'warn', ...process.env },
  })
  const { url } = await app.listen()
  console.log(`listening on ${url}`)
  return url
}

/** The API keys in the environment, one for each person, or the key that the server generated for development. */
function keys(): string[] {
  if (process.env.API_KEY)
    return process.env.API_KEY.split(',').map((key) => key.slice(key.indexOf(':') + 1).trim())
  const file = join(DATA_DIR, 'dev.env')
  try {
    return [parseEnv(readFileSync(file, 'utf8')).API_KEY ?? '']
  } catch {
    throw new Error(`Set API_KEY: there is no ${file} to take it from.`)
  }
}
