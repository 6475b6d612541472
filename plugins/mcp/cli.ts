import { parseArgs } from 'node:util'
import { readConfiguration, type ServerConfig } from './config/config.ts'
import { Connection, type Listing } from './connecting/connection.ts'
import type { ChangedTool } from './servers.ts'
import { askServer, environment } from './operator.ts'
import { treatmentOf } from './tools/effect.ts'
import { isWanted, namesOf } from './tools/names.ts'

// npm run mcp: what is configured, whether it answers, and what the operator accepts.
const say = (line: string) => void process.stdout.write(`${line}\n`)
const usage = `npm run mcp                      the servers, as the running server knows them
npm run mcp -- test <name>       connects now, and shows what the model would see
npm run mcp -- warm              connects to each once, so that what npx needs is there
npm run mcp -- accept <name>     shows what has changed, and accepts it at the running server`

const { values, positionals } = parseArgs({
  options: { help: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const [command = 'list', name] = positionals
const env = environment()
const configuration = readConfiguration(env)

try {
  process.exitCode = await run()
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}

async function run(): Promise<number> {
  if (values.help) return (say(usage), 0)
  for (const fault of configuration.faults) say(`left out: ${fault}`)
  if (!configuration.isThere) {
    say('No MCP server is configured. Set MCP_SERVERS, or put mcp.json into DATA_DIR.')
    return 1
  }
  if (command === 'list') return list()
  if (command === 'warm') return warm()
  if (command === 'test' && name !== undefined) return test(serverOf(name))
  if (command === 'accept' && name !== undefined) return accept(name)
  say(usage)
  return 2
}

function serverOf(wanted: string): ServerConfig {
  const found = configuration.servers.find((server) => [server.name, server.key].includes(wanted))
  if (found) return found
  const names = configuration.servers.map((server) => server.name).join(', ')
  throw new Error(`There is no server "${wanted}". There are: ${names || 'none'}.`)
}

async function list(): Promise<number> {
  const known = await askServer(env, 'GET', '/mcp-servers').catch((error: unknown) => {
    say(`${error instanceof Error ? error.message : error} What is configured:`)
    return undefined
  })
  const states: readonly State[] = isKnown(known) ? known.servers : []
  for (const { name: each, way, oracle } of configuration.servers) {
    const state = states.find((one) => one.name === each)
    const who = oracle.access === 'everyone' ? 'everyone' : `whoever has mcp/${each}`
    say(`${each}  ${way.kind}  for ${who}  ${state?.state ?? ''} ${state?.revision ?? ''}`.trim())
    if (state?.fault) say(`  ${state.fault}`)
    if (state && state.unseen > 0) say(`  ${state.unseen} tools are not accepted as they are now`)
    for (const tool of state?.tools ?? [])
      say(`  ${tool.name}  ${tool.effect}${tool.approve ? ', asks' : ''}`)
  }
  return 0
}

interface State {
  readonly name: string
  readonly state: string
  readonly revision?: string
  readonly fault?: string
  readonly unseen: number
  readonly tools: readonly {
    readonly name: string
    readonly effect: string
    readonly approve: boolean
  }[]
}

function isKnown(value: unknown): value is { readonly servers: readonly State[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'servers' in value &&
    Array.isArray(value.servers)
  )
}

/** Connects, asks for the list, and ends. */
async function ask(config: ServerConfig): Promise<Listing> {
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const connection = new Connection(config, { log, now: Date.now, connectMs: 120_000 })
  try {
    return await connection.list()
  } finally {
    await connection.close()
  }
}

async function test(config: ServerConfig): Promise<number> {
  const { tools, revision, about } = await ask(config)
  say(`${config.name} answers in revision ${revision}.${about ? ` It says: ${about}` : ''}`)
  const wanted = tools.filter((tool) => isWanted(tool.name, config.oracle.tools))
  for (const [offered, tool] of namesOf(config.name, wanted)) {
    const { effect, approve } = treatmentOf(tool.hints, config.oracle.trust, true)
    say(`\n${offered}  ${effect}${approve ? ', asks' : ''}\n  ${tool.description}`)
    say(`  ${JSON.stringify(tool.parameters)}`)
  }
  return 0
}

async function warm(): Promise<number> {
  let failed = 0
  for (const config of configuration.servers)
    try {
      const { tools } = await ask(config)
      say(`${config.name}: ${tools.length} tools`)
    } catch (error) {
      failed++
      say(error instanceof Error ? error.message : String(error))
    }
  return failed > 0 ? 1 : 0
}

async function accept(wanted: string): Promise<number> {
  const { name: server } = serverOf(wanted)
  const answer = await askServer(env, 'POST', `/mcp-servers/${encodeURIComponent(server)}/accept`)
  const changes = hasAccepted(answer) ? answer.accepted : []
  for (const { tool, change, before, now } of changes) {
    say(`${change}: ${tool}`)
    if (before) say(`  - ${before.description}\n    ${JSON.stringify(before.parameters)}`)
    if (now) say(`  + ${now.description}\n    ${JSON.stringify(now.parameters)}`)
  }
  say(changes.length > 0 ? 'Accepted.' : 'Nothing has changed.')
  return 0
}

function hasAccepted(value: unknown): value is { readonly accepted: readonly ChangedTool[] } {
  return (
    typeof value === 'object' &&
    value !== null &&
    'accepted' in value &&
    Array.isArray(value.accepted)
  )
}
