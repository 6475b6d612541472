import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll } from 'vitest'
import { plannedDatabase } from './database.ts'
import { describeWith, urlOf } from './services.ts'

/** A database of a suite's own, and its address through a bouncer. */
export interface Pooled {
  readonly directUrl: string
  /** Known once the suite's first hook has run. */
  readonly pooledUrl: string
}

/** Runs a suite on a database behind a PgBouncer in transaction mode, where there are both. */
export async function behindPooler(name: string, suite: (pooled: Pooled) => void): Promise<void> {
  const postgres = await urlOf('postgres')
  if (postgres === undefined) {
    await describeWith('postgres', name, () => {})
    return
  }
  await describeWith('pooler', name, () => {
    const database = plannedDatabase(postgres)
    let pooler: Pooler | undefined
    beforeAll(async () => {
      await database.create()
      pooler = await startPooler(database.url)
    })
    afterAll(async () => {
      await pooler?.close()
      await database.drop()
    })
    suite({
      directUrl: database.url,
      get pooledUrl() {
        if (!pooler) throw new Error('The bouncer starts before the first test.')
        return pooler.url
      },
    })
  })
}

/** A PgBouncer in transaction mode before a database. */
export interface Pooler {
  /** The address of the same database through the bouncer. */
  readonly url: string
  close(): Promise<void>
}

/** Starts a PgBouncer before the server of a database, with no setting that knows of our server. */
export async function startPooler(target: string): Promise<Pooler> {
  // Between the moment in which a port is found free and the bouncer's own, somebody else may take it.
  for (let tries = 1; ; tries++) {
    try {
      return await startOnce(target)
    } catch (error) {
      if (tries === 3) throw error
    }
  }
}

async function startOnce(target: string): Promise<Pooler> {
  const to = new URL(target)
  const folder = mkdtempSync(join(tmpdir(), 'oracle-pooler-'))
  const port = await freePort()
  const config = join(folder, 'pgbouncer.ini')
  const password = to.password && ` password=${decodeURIComponent(to.password)}`
  writeFileSync(
    config,
    `[databases]
* = host=${to.hostname} port=${to.port || 5432} user=${decodeURIComponent(to.username)}${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 400
`,
  )
  // PgBouncer does not run as root, so another user must be able to read the file.
  chmodSync(folder, 0o755)
  chmodSync(config, 0o644)
  const asUser = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const bouncer = spawn('pgbouncer', ['-q', ...asUser, config], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  bouncer.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
  const ended = once(bouncer, 'exit')
  do {
    if (bouncer.exitCode !== null) {
      rmSync(folder, { recursive: true, force: true })
      throw new Error(`PgBouncer did not start: ${said}`)
    }
    await sleep(50)
  } while (!(await answers(port)))
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    url: url.href,
    async close() {
      if (bouncer.exitCode === null) bouncer.kill('SIGKILL')
      await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.once('connect', () => (socket.destroy(), resolve(true)))
    socket.once('error', () => resolve(false))
  })
}
