import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, appendFileSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)

/** PostgreSQL does not run as root: a test that does runs it as the user of Debian's package. */
const asUser = process.getuid?.() === 0 ? ['runuser', '-u', 'postgres', '--'] : []

/** A PostgreSQL server of a test's own, with settings that the shared one does not have. */
export interface Cluster {
  readonly port: number
  /** Its database `postgres`. */
  readonly url: string
  readonly folder: string
  /** Runs statements at its database. */
  query<R>(sql: string): Promise<R[]>
  /** Ends every process of it at once. */
  kill(): Promise<void>
  close(): Promise<void>
}

/** Starts a new cluster. */
export async function startCluster(settings: Readonly<Record<string, string>>): Promise<Cluster> {
  const folder = newFolder()
  await asPostgres(program('initdb'), [
    '-D',
    folder,
    '-A',
    'trust',
    '-U',
    'root',
    '-N',
    '--no-locale',
    '-E',
    'UTF8',
  ])
  return serve(folder, settings)
}

/** Starts a cluster that follows another one and goes by the name `name` there. */
export async function startStandby(of: Cluster, name: string): Promise<Cluster> {
  const folder = newFolder()
  const to = `host=127.0.0.1 port=${of.port} user=root application_name=${name}`
  const copy = ['-d', to, '-D', folder, '-R', '-X', 'stream', '-c', 'fast']
  await asPostgres(program('pg_basebackup'), copy)
  const standby = await serve(folder, { hot_standby: 'on' })
  await of.query(`alter system set synchronous_standby_names = '${name}'`)
  await of.query('select pg_reload_conf()')
  const isSynchronous = async () =>
    (await of.query(`select 1 from pg_stat_replication where sync_state = 'sync'`)).length > 0
  while (!(await isSynchronous())) await sleep(50)
  return standby
}

/** Makes a standby a primary; resolves once it takes writes. */
export async function promote(standby: Cluster): Promise<void> {
  await standby.query('select pg_promote(true, 60)')
}

/** A port that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

function program(name: string): string {
  const versions = '/usr/lib/postgresql'
  const newest = existsSync(versions)
    ? readdirSync(versions).sort((a, b) => Number(b) - Number(a))[0]
    : undefined
  return newest === undefined ? name : join(versions, newest, 'bin', name)
}

/** A folder that the user who runs PostgreSQL owns. */
function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oracle-cluster-'))
  return folder
}

async function asPostgres(command: string, args: readonly string[]): Promise<void> {
  const folder = args[args.indexOf('-D') + 1] ?? ''
  if (asUser.length > 0 && existsSync(folder)) await run('chown', ['-R', 'postgres', folder])
  const [first = command, ...rest] = [...asUser, command]
  await run(first, [...rest, ...args], { cwd: '/' })
}

async function serve(folder: string, settings: Readonly<Record<string, string>>): Promise<Cluster> {
  const port = await freePort()
  const all = {
    port: String(port),
    listen_addresses: `'127.0.0.1'`,
    unix_socket_directories: `''`,
    fsync: 'off',
    max_connections: '300',
    ...settings,
  }
  appendFileSync(
    join(folder, 'postgresql.conf'),
    `\n${Object.entries(all)
      .map(([name, value]) => `${name} = ${value}`)
      .join('\n')}\n`,
  )
  // In a group of its own: a kill takes the server's children along.
  const [first = '', ...rest] = [...asUser, program('postgres'), '-D', folder]
  const server = spawn(first, rest, {
    detached: true,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  server.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
  const url = `postgres://root@127.0.0.1:${port}/postgres`
  const exited = once(server, 'exit')
  const query = async <R>(sql: string): Promise<R[]> => {
    const client = new pg.Client(url)
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query(sql)).rows as R[]
    } finally {
      await client.end().catch(() => {})
    }
  }
  for (let tries = 0; ; tries++)
    try {
      await query('select 1')
      break
    } catch (error) {
      if (server.exitCode !== null || tries > 400)
        throw new Error(`PostgreSQL did not start: ${said}`, { cause: error })
      await sleep(50)
    }
  const end = async () => {
    signal(server)
    await exited
  }
  return {
    port,
    url,
    folder,
    query,
    kill: end,
    async close() {
      await end()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function signal({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  process.kill(-pid, 'SIGKILL')
}
