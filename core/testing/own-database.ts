import { randomBytes } from 'node:crypto'
import { fieldsIn } from '../runtime/base/fields.ts'

/** Where tests look for PostgreSQL when the variable says nothing. */
const usualUrl = 'postgres://root@127.0.0.1:5432/test'

/** A database that one test app has to itself. */
export interface OwnDatabase {
  readonly url: string
  drop(): Promise<void>
}

/** Makes an empty database on the server at TEST_DATABASE_URL. */
export async function ownDatabase(): Promise<OwnDatabase> {
  const server = process.env.TEST_DATABASE_URL || usualUrl
  const name = `oracle_test_${randomBytes(6).toString('hex')}`
  await administrate(server, `create database ${name}`)
  const own = new URL(server)
  own.pathname = `/${name}`
  return {
    url: own.href,
    drop: () => administrate(server, `drop database if exists ${name} with (force)`),
  }
}

async function administrate(server: string, statement: string): Promise<void> {
  const { default: pg } = await import('pg')
  try {
    const client = new pg.Client({ connectionString: server, connectionTimeoutMillis: 5_000 })
    await client.connect()
    try {
      await client.query(statement)
    } finally {
      await client.end()
    }
  } catch (cause) {
    // The message leaves out most of the address, which may hold a password.
    const { host, pathname } = URL.parse(server) ?? {
      host: 'an address that is none',
      pathname: '',
    }
    const { code, message } = fieldsIn(cause)
    throw new Error(
      `testApp({ database: 'postgres' }) cannot use PostgreSQL at ${host}${pathname}: ${String(message || code)}. ` +
        'Start PostgreSQL there, or set TEST_DATABASE_URL to a database whose user may create others.',
      { cause },
    )
  }
}
