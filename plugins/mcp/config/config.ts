import { existsSync, readFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { faultsOf } from '#core'
import { parseWithComments } from './json-with-comments.ts'
import { type Entry, entrySchema } from './schema.ts'
import { filledIn } from './variables.ts'

/** How a server is reached: a child process, or an address. */
export type Way =
  | {
      readonly kind: 'stdio'
      readonly command: string
      readonly args: readonly string[]
      readonly env: Readonly<Record<string, string>>
      readonly cwd?: string
    }
  | {
      readonly kind: 'http' | 'sse'
      readonly url: string
      readonly headers: Readonly<Record<string, string>>
    }

/** A server as it is configured. */
export interface ServerConfig {
  /** The name of its plugin. */
  readonly name: string
  /** Its key in the configuration. */
  readonly key: string
  readonly way: Way
  readonly oracle: Entry['oracle']
  /** Of all that says which server this is, without its secrets: another fingerprint is another server. */
  readonly fingerprint: string
}

/** What the environment configures. Servers with faults are left out, and each fault is a sentence with the remedy. */
export interface Configuration {
  /** Whether there is anything: a variable, or a file. */
  readonly isThere: boolean
  readonly servers: readonly ServerConfig[]
  readonly faults: readonly string[]
}

type Env = Readonly<Record<string, string | undefined>>

/** What an environment without servers configures. */
export const noServers: Configuration = { isThere: false, servers: [], faults: [] }
const mostServers = 100
const mostBytes = 1024 * 1024
const loopback = new Set(['localhost', '127.0.0.1', '[::1]'])
/** A plugin that is configured may not take the place of one that an app is likely to have. */
const takenName = /^(mcp|kernel)$/

/** Reads MCP_SERVERS, or `mcp.json` in DATA_DIR. */
export function readConfiguration(env: Env, taken: ReadonlySet<string> = new Set()): Configuration {
  const given = env.MCP_SERVERS?.trim()
  const usual = join(env.DATA_DIR || '.data', 'mcp.json')
  if (!given && !existsSync(usual)) return noServers
  try {
    const text = given?.startsWith('{') ? given : textOf(given || usual)
    return { isThere: true, ...readServers(text, env, taken) }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return { isThere: true, servers: [], faults: [`MCP_SERVERS: ${why}`] }
  }
}

function textOf(path: string): string {
  let bytes: Buffer
  try {
    bytes = readFileSync(path)
  } catch {
    throw new Error(`the file ${path} cannot be read. Give a path that exists, or the JSON itself.`)
  }
  if (bytes.length > mostBytes) throw new Error(`the file ${path} is larger than 1 MiB.`)
  return bytes.toString('utf8')
}

function readServers(
  text: string,
  env: Env,
  taken: ReadonlySet<string>,
): Pick<Configuration, 'servers' | 'faults'> {
  const entries = entriesOf(text)
  const faults: string[] = []
  const servers: ServerConfig[] = []
  const names = new Set(taken)
  if (entries.length > mostServers)
    faults.push(`${entries.length} servers are configured; the first ${mostServers} are read.`)
  for (const [key, entry] of entries.slice(0, mostServers)) {
    try {
      const server = serverOf(key, entry, env, names)
      if (!server) continue
      names.add(server.name)
      servers.push(server)
    } catch (error) {
      faults.push(`${key}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  return { servers, faults }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The entries, under the key of Claude Desktop and Cursor or under that of VS Code. */
function entriesOf(text: string): [key: string, entry: unknown][] {
  let value: unknown
  try {
    value = parseWithComments(text)
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unreadable'
    throw new Error(`this is no JSON: ${why.slice(0, 200)}`)
  }
  const found = isObject(value) ? (value.mcpServers ?? value.servers) : undefined
  if (!isObject(found))
    throw new Error('there is no "mcpServers" in it. Write { "mcpServers": { "<name>": { … } } }.')
  return Object.entries(found)
}

function serverOf(
  key: string,
  given: unknown,
  env: Env,
  names: ReadonlySet<string>,
): ServerConfig | undefined {
  // A dozen entries at boot are not worth the program that zod would compile for them.
  const parsed = entrySchema.safeParse(given, { jitless: true })
  if (!parsed.success) {
    const [fault] = faultsOf(parsed.error)
    throw new Error(`"${fault?.path || 'the entry'}" is wrong: ${fault?.message}.`)
  }
  const entry = parsed.data
  if (entry.disabled || entry.oracle.disabled) return undefined
  const filled = filledIn(entry, env)
  const way = wayOf(filled)
  const { oauth } = filled.oracle
  if (oauth && way.kind === 'stdio')
    throw new Error('it has "oauth", which is for servers with a "url". Leave one of them out.')
  if (oauth?.issuer !== undefined) checkAddress(oauth.issuer)
  return {
    name: nameOf(key, names),
    key,
    way,
    oracle: filled.oracle,
    fingerprint: fingerprintOf(wayOf(entry, true)),
  }
}

/** The way to the server. `isRaw`: before variables are filled in, so addresses may be none yet. */
function wayOf(entry: Entry, isRaw = false): Way {
  const { command, args, env, cwd, url, headers, type } = entry
  if (command !== undefined && url !== undefined)
    throw new Error('it has both "command" and "url". Keep one of them.')
  if (command !== undefined) return { kind: 'stdio', command, args, env, ...(cwd && { cwd }) }
  if (url === undefined) throw new Error('it has neither "command" nor "url". Give one of them.')
  if (!isRaw) checkAddress(url)
  return { kind: type === 'sse' ? 'sse' : 'http', url, headers }
}

function checkAddress(text: string): void {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new Error('its "url" is no address. Write https://host/path.')
  }
  if (url.username || url.password)
    throw new Error('its "url" has a password in it. Put it into "headers".')
  if (url.protocol === 'https:') return
  if (url.protocol !== 'http:')
    throw new Error(`its "url" begins with ${url.protocol}. Use https:.`)
  if (!loopback.has(url.hostname))
    throw new Error(
      'its "url" is plain http: to another host. Use https:, or a server on this machine.',
    )
}

/** The name of the plugin: the key where it can be one, else made so. */
function nameOf(key: string, names: ReadonlySet<string>): string {
  const made = key
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^[-0-9]+|-+$/g, '')
    .slice(0, 36)
    .replace(/-+$/, '')
  const isTaken = (name: string) => takenName.test(name) || names.has(name)
  for (const name of [made, `mcp-${made}`]) if (made !== '' && !isTaken(name)) return name
  throw new Error(
    made === ''
      ? 'no name of a plugin can be made of its key. Use letters.'
      : `another server or plugin has the name "${made}", and "mcp-${made}" too. Rename one of them.`,
  )
}

/** Of the way before its variables are filled in, and of no value of `env` and `headers`: a new password is no new server. */
function fingerprintOf(way: Way): string {
  const { args, command, cwd, url, kind } = { args: [], command: '', cwd: '', url: '', ...way }
  const parts = JSON.stringify([kind, command, args, cwd, url])
  return createHash('sha256').update(parts).digest('base64url').slice(0, 22)
}
