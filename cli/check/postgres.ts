import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { EnvSource } from '../../core/manifest/env.ts'
import { fault, faultOf, type Finding, ok, reasonOf, warning } from './finding.ts'

/** How long a connection and an answer may take, and how long a message to itself. */
const patienceMs = 5_000
const heardMs = 2_000
/** Leases go by the database's clock, and tokens by the machine's. */
const mostSkewMs = 5_000

type Drivers = typeof import('../../core/runtime/store/postgres.ts')

/** Looks at the PostgreSQL of DATABASE_URL: version, pooler, clock, and whether messages are heard. Changes nothing. */
export async function checkPostgres(source: EnvSource): Promise<readonly Finding[]> {
  const drivers = await import('../../core/runtime/store/postgres.ts')
  const url = source.DATABASE_URL ?? ''
  let opened
  try {
    opened = await open(drivers, url)
  } catch (error) {
    const remedy = 'Check that PostgreSQL runs and that DATABASE_URL is right.'
    return [faultOf('database', error, remedy)]
  }
  const { client, target, isPooled } = opened
  try {
    const before = Date.now()
    const { rows } = await client.query(
      `select current_setting('server_version') as version, extract(epoch from clock_timestamp()) * 1000 as now`,
    )
    const after = Date.now()
    const version = String(rows[0]?.version)
    const pooler = isPooled ? ', behind a pooler that refuses time limits at the start' : ''
    return [
      ok('database', `PostgreSQL ${version} at ${target}${pooler}`),
      checkClock(Number(rows[0]?.now) - (before + after) / 2, (after - before) / 2),
      await checkListening(drivers, client, source),
    ]
  } catch (error) {
    return [faultOf('database', error)]
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** A connection, which has the limits of a server's own connections unless a pooler refuses those. */
async function open(drivers: Drivers, url: string, by: 'startup' | 'transaction' = 'startup') {
  const { settings, target } = drivers.postgresSettings(url, by)
  const client = clientOf(drivers, settings)
  try {
    await client.connect()
    return { client, target, isPooled: by === 'transaction' }
  } catch (error) {
    await client.end().catch(() => undefined)
    if (by === 'startup' && drivers.isParameterRefused(error))
      return open(drivers, url, 'transaction')
    throw new Error(`PostgreSQL at ${target} cannot be used: ${reasonOf(error)}.`, { cause: error })
  }
}

function clientOf(drivers: Drivers, settings: pg.ClientConfig): pg.Client {
  const client = new drivers.Client({
    ...settings,
    query_timeout: patienceMs,
    connectionTimeoutMillis: patienceMs,
  })
  client.on('error', () => undefined) // the next query says what broke
  return client
}

function checkClock(difference: number, error: number): Finding {
  const seconds = (Math.abs(difference) / 1000).toFixed(1)
  if (Math.abs(difference) <= mostSkewMs + error)
    return ok('clock', `${seconds} s between this machine and the database`)
  return fault(
    'clock',
    `This machine's clock is ${seconds} s ${difference > 0 ? 'behind' : 'ahead of'} the database's.`,
    'Let NTP set the clocks of both: leases go by the one, and tokens by the other.',
  )
}

async function checkListening(
  drivers: Drivers,
  client: pg.Client,
  source: EnvSource,
): Promise<Finding> {
  const listenUrl = source.DATABASE_LISTEN_URL
  const name = listenUrl ? 'DATABASE_LISTEN_URL' : 'DATABASE_URL'
  const remedy = 'Set DATABASE_LISTEN_URL to an address of the same database without a pooler.'
  let why: string
  try {
    if (await isHeard(drivers, client, listenUrl || source.DATABASE_URL || '', name))
      return ok('LISTEN', `heard over ${name}`)
    why = `A message to itself is not heard over ${name} within ${heardMs / 1000} s`
  } catch (error) {
    why = `${name} cannot listen: ${reasonOf(error)}`
  }
  const other = source.BUS_URL ? 'BUS_URL' : source.REDIS_URL ? 'REDIS_URL' : undefined
  if (other) return warning('LISTEN', `${why}; replicas are heard over ${other}.`, remedy)
  return fault('LISTEN', `${why}: replicas would look into a table four times a second.`, remedy)
}

async function isHeard(
  drivers: Drivers,
  client: pg.Client,
  url: string,
  name: string,
): Promise<boolean> {
  const listener = clientOf(drivers, drivers.postgresSettings(url, 'transaction', name).settings)
  const channel = `oracle_check_${randomBytes(8).toString('hex')}`
  const done = new AbortController()
  try {
    await listener.connect()
    const heard = new Promise<boolean>((resolve) => {
      listener.on('notification', (message) => {
        if (message.channel === channel) resolve(true)
      })
    })
    await listener.query(`listen ${channel}`)
    await client.query('select pg_notify($1, $2)', [channel, ''])
    const late = sleep(heardMs, false, { signal: done.signal }).catch(() => false)
    return await Promise.race([heard, late])
  } finally {
    done.abort()
    await listener.end().catch(() => undefined)
  }
}
