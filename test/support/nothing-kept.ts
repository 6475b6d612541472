import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { definePlugin } from '#core'
import { openSqlite, sqliteDialect } from '../../core/runtime/store/sqlite.ts'

/** What a user says in every message of a test of payments, beside the words of the test. */
export const sentence = 'the heron waits in the reeds at dawn'

/** What no table of payments, no log line and no memo may hold, and what it is called in a complaint. */
const secrets = new Map<string, string>([
  ['heron', 'the sentence of a conversation'],
  ['the key of the facilitator', 'the key of the facilitator'],
])

/** The variables whose values are secrets. */
const secretVariables = ['PAYMENTS_MNEMONIC', 'PAYMENTS_X402_AUTH'] as const

/** Notes the secrets among the variables of an app. */
export function noteSecrets(env: Readonly<Record<string, string | undefined>> = {}): void {
  for (const name of secretVariables) {
    const value = env[name]
    if (value !== undefined) secrets.set(value, name)
  }
}

/** The keys of the development ledger stand in its own table, as a wallet has them. */
const ownSecrets = 'payments_dev_keys'

/** Says which secrets stand in a text. */
export const faultsIn = (place: string, text: string): string[] =>
  [...secrets].filter(([secret]) => text.includes(secret)).map(([, name]) => `${place}: ${name}`)

/** Says which secrets stand in the tables of payments, and how many tables there are. */
export async function look(db: Kysely<any>): Promise<{ tables: number; faults: string[] }> {
  // any: the tables are found by their names
  const faults: string[] = []
  const tables = (await db.introspection.getTables())
    .map(({ name }) => name)
    .filter((name) => name.startsWith('payments_') && name !== ownSecrets)
  for (const name of tables) {
    const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(
      db,
    )
    const values = rows.flatMap((row) => Object.values(row).map(String))
    faults.push(...faultsIn(`the table ${name}`, [...values, ...values.map(decoded)].join('\n')))
  }
  return { tables: tables.length, faults }
}

/** The bytes of transactions stand in tables as base64: a memo is among them. */
const decoded = (value: string): string =>
  /^[A-Za-z0-9+/]{40,}=*$/.test(value) ? Buffer.from(value, 'base64').toString('latin1') : ''

/** Says which secrets stand in the tables of an app whose process is another one, and in the lines that it wrote. */
export const faultsAt = (place: Place, lines: readonly string[]): Promise<string[]> =>
  at(place, async (db) => {
    const { tables, faults } = await look(db)
    const unseen = tables > 10 ? [] : [`there are ${tables} tables to look through`]
    return [...unseen, ...faults, ...faultsIn('a line', lines.join('\n'))]
  })

/** Where a server has its tables. */
interface Place {
  readonly databaseUrl?: string
  readonly dataDir?: string
}

/** Does something in the database of a server that may be dead. */
export async function at<T>(
  { databaseUrl, dataDir = '' }: Place,
  work: (db: Kysely<any>) => Promise<T>, // any: the tables are found by their names
): Promise<T> {
  const dialect = databaseUrl
    ? new PostgresDialect({ pool: poolAt(databaseUrl) })
    : sqliteDialect(openSqlite(join(dataDir, 'oracle.sqlite')))
  const db = new Kysely<any>({ dialect })
  try {
    return await work(db)
  } finally {
    await db.destroy()
  }
}

function poolAt(connectionString: string): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 1 })
  // A pool has ended before its connection has. Who drops the database meanwhile cuts that connection.
  return pool.on('error', () => undefined)
}

/**
 * A plugin that looks through the tables when its app closes. When its test is over, no secret may have stood in them, nor in
 * the lines that the app logged.
 */
export function lookedThrough(lines: () => readonly string[]) {
  const { plugin, seen } = witness()
  onTestFinished(() => {
    expect([...seen.faults, ...faultsIn('a log line', lines().join('\n'))]).toEqual([])
    expect(seen.tables, 'tables that were looked through').toBeGreaterThan(10)
  })
  return plugin
}

/** A plugin that looks through the tables whenever its app closes. */
function witness() {
  const seen = { tables: 0, faults: [] as string[] }
  const plugin = definePlugin({
    name: 'witness',
    summary: 'Looks for words and secrets in the tables of payments.',
    setup({ db, onClose }) {
      onClose(async () => {
        const { tables, faults } = await look(db)
        seen.tables = Math.max(seen.tables, tables)
        seen.faults.push(...faults)
      })
    },
  })
  return { plugin, seen }
}

let isListening = false

/** From now on every message that is sent says the sentence as well, and every signature that is sent is noted. */
export function listen(): void {
  if (isListening) return
  isListening = true
  const { fetch } = globalThis
  globalThis.fetch = async (input, init) => {
    const headers = new Headers(
      init?.headers ?? (input instanceof Request ? input.headers : undefined),
    )
    noteSignature(headers.get('payment-signature'))
    const url = input instanceof Request ? input.url : String(input)
    const isMessage = /\/messages\/[^/?]+$/.test(url) && !url.endsWith('/abort')
    if (!isMessage) return fetch(input, init)
    if (typeof init?.body === 'string') return fetch(input, { ...init, body: spoken(init.body) })
    if (!(input instanceof Request) || input.method !== 'POST' || init?.body)
      return fetch(input, init)
    return fetch(new Request(input, { body: spoken(await input.clone().text()) }), init)
  }
}

/** The body of a message with the sentence in it; any other body as it is. */
function spoken(body: string): string {
  try {
    const said = JSON.parse(body)
    if (typeof said.message !== 'string' || said.message === '' || said.message.includes(sentence))
      return body
    return JSON.stringify({ ...said, message: `${said.message} (${sentence})` })
  } catch {
    return body
  }
}

function noteSignature(header: string | null): void {
  if (header === null) return
  try {
    const { signature } = JSON.parse(Buffer.from(header, 'base64').toString()).payload
    if (typeof signature !== 'string' || signature.length < 100) return
    for (const text of [header, signature.slice(2)]) secrets.set(text, 'a signature')
  } catch {
    // It is none, which is what its test is about.
  }
}
