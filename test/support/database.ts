import { randomBytes } from 'node:crypto'
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import pg from 'pg'

/** Creates an empty PostgreSQL database for one test, with a function that drops it again. */
export async function freshDatabase(url: string): Promise<{ url: string; drop(): Promise<void> }> {
  const database = plannedDatabase(url)
  await database.create()
  return database
}

/** A database whose address is known before the database exists. */
export function plannedDatabase(url: string) {
  const name = `test_${randomBytes(6).toString('hex')}`
  const own = new URL(url)
  own.pathname = `/${name}`
  return {
    url: own.href,
    create: () => administrate(url, `create database ${name}`),
    drop: () => administrate(url, `drop database if exists ${name} with (force)`),
  }
}

async function administrate(url: string, sql: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

/** A wire to a server that can break, fall silent and come back, on an address of its own. */
export interface FlakyWire {
  readonly url: string
  /** Cuts the open connections and refuses new ones. */
  cut(): Promise<void>
  /** Lets nothing more through, and leaves the connections open. */
  silence(): void
  restore(): Promise<void>
  close(): Promise<void>
}

/** Opens a flaky wire to the server at `target`. `onAnswer` sees what the server says, each connection by its own function. */
export async function flakyWire(
  target: string,
  onAnswer?: () => (bytes: Buffer) => void,
): Promise<FlakyWire> {
  const to = new URL(target)
  const open = new Set<Socket>()
  let silent = false
  // Half-open, because a server that fell silent does not answer a goodbye either.
  const server = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect({
      port: Number(to.port || 5432),
      host: to.hostname,
      allowHalfOpen: true,
    })
    const see = onAnswer?.()
    if (see) far.on('data', see)
    for (const [from, into] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from)
      from.on('data', (bytes) => silent || into.write(bytes))
      from.on('end', () => silent || into.end())
      from.on('error', () => {})
      from.on('close', () => {
        open.delete(from)
        into.destroy()
      })
    }
  })
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const url = new URL(target)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  const cut = () =>
    new Promise<void>((resolve) => {
      if (server.listening) server.close(() => resolve())
      else resolve()
      for (const socket of open) socket.destroy()
    })
  return {
    url: url.href,
    cut,
    silence: () => void (silent = true),
    async restore() {
      silent = false
      if (!server.listening) await listen(port)
    },
    close: cut,
  }
}
