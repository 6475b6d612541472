import { type Log, RuntimeError } from '#core'
import { deviceName } from '../device/recovery.ts'
import type { Seal } from '../device/sealing.ts'
import type { MessagingEnv } from '../environment.ts'
import type { MessagingDatabase } from '../tables.ts'
import { path, type ServerApi } from './api.ts'
import { ServerFault } from './fault.ts'

/** What no waiting mends: a wrong password, another account, another key. */
export class Hopeless extends RuntimeError {
  constructor(message: string, hint: string) {
    super('MESSAGING_REFUSED', message, { hint, status: 503 })
  }
}

/** What a log-in needs. */
export interface LoginOptions {
  readonly api: ServerApi
  readonly db: MessagingDatabase
  readonly seal: Seal
  readonly env: MessagingEnv
  readonly log: Log
}

/** The device that the account has here, and how far the rooms were read with it. */
export interface OpenedAccount {
  readonly deviceId: string
  readonly since: string | undefined
}

interface Kept {
  readonly deviceId: string
  readonly token: string
}

/** How long the first answer of a server may take. */
export const firstAnswerMs = 15_000

/** Asks whether a Matrix server answers at all. */
export async function greet(api: ServerApi, signal: AbortSignal): Promise<void> {
  const call = { timeoutMs: firstAnswerMs, authenticated: false, signal }
  const { versions } = await api.get('/_matrix/client/versions', call)
  if (!Array.isArray(versions)) throw new ServerFault('foreign', 'no Matrix server answers there')
}

/** Logs in as the device that was here before, or as a new one. The api has the token then. */
export async function openAccount(options: LoginOptions): Promise<OpenedAccount> {
  const { db, seal, env, api, log } = options
  const account = env.MATRIX_ORACLE_ADMIN_USER_ID
  const row = await db
    .selectFrom('messaging_account')
    .selectAll()
    .where('account', '=', account)
    .executeTakeFirst()
  const since = row?.since ?? undefined
  let kept = row && readKept(seal.open(row.sealed))
  if (kept && (await isLost(options, kept))) {
    if (env.MATRIX_ORACLE_ADMIN_PASSWORD === undefined)
      throw new Hopeless(
        'the keys of the device are gone (messaging_keys), and a new device needs a password',
        'Set MATRIX_ORACLE_ADMIN_PASSWORD.',
      )
    log.warn('The keys of the device are gone: a new device begins')
    kept = undefined
  }
  if (kept && (await isGood(api, kept.token))) return { deviceId: kept.deviceId, since }
  const opened = await logIn(options, kept?.deviceId)
  const isSame = kept?.deviceId === opened.deviceId
  await db.transaction().execute(async (trx) => {
    // Another device has other keys: those of the one before would be uploaded as its own.
    if (!isSame) await trx.deleteFrom('messaging_keys').where('account', '=', account).execute()
    const sealed = seal.seal(JSON.stringify(opened))
    await trx
      .insertInto('messaging_account')
      .values({ account, sealed, since: null, recovery: null })
      .onConflict((on) => on.column('account').doUpdateSet({ sealed }))
      .execute()
  })
  return { deviceId: opened.deviceId, since }
}

/** The token of the account's device, as the process that holds the account has kept it; undefined where nothing is kept. */
export async function tokenOf({
  db,
  seal,
  env,
}: Pick<LoginOptions, 'db' | 'seal' | 'env'>): Promise<string | undefined> {
  const row = await db
    .selectFrom('messaging_account')
    .select('sealed')
    .where('account', '=', env.MATRIX_ORACLE_ADMIN_USER_ID)
    .executeTakeFirst()
  return row && readKept(seal.open(row.sealed)).token
}

/** Whether the server knows keys of the device that the database has no more: then the device can read nothing. */
async function isLost({ api, db, env }: LoginOptions, kept: Kept): Promise<boolean> {
  const account = env.MATRIX_ORACLE_ADMIN_USER_ID
  const row = await db
    .selectFrom('messaging_keys')
    .select('key')
    .where('account', '=', account)
    .limit(1)
    .executeTakeFirst()
  if (row || !(await isGood(api, kept.token))) return false
  const asked = { device_keys: { [account]: [kept.deviceId] } }
  const { device_keys: known } = await api.post(path`/keys/query`, asked)
  return known?.[account]?.[kept.deviceId] !== undefined
}

/** Whether the server takes a token, with the token in use. */
async function isGood(api: ServerApi, token: string): Promise<boolean> {
  api.token = token
  try {
    await api.get(path`/account/whoami`)
    return true
  } catch (thrown) {
    if (thrown instanceof ServerFault && thrown.kind === 'rejected') return false
    throw thrown
  }
}

async function logIn({ api, env }: LoginOptions, deviceId: string | undefined): Promise<Kept> {
  const token = env.MATRIX_ORACLE_ADMIN_ACCESS_TOKEN
  const password = env.MATRIX_ORACLE_ADMIN_PASSWORD
  if (token !== undefined) {
    const device = await deviceOf(api, env, token)
    if (device !== undefined) return { deviceId: device, token }
    if (password === undefined)
      throw new Hopeless(
        'the access token was rejected (MATRIX_ORACLE_ADMIN_ACCESS_TOKEN)',
        'Set another token, or MATRIX_ORACLE_ADMIN_PASSWORD.',
      )
  }
  api.token = undefined
  try {
    const answer = await api.post(path`/login`, {
      type: 'm.login.password',
      identifier: { type: 'm.id.user', user: env.MATRIX_ORACLE_ADMIN_USER_ID },
      password,
      initial_device_display_name: deviceName,
      ...(deviceId !== undefined && { device_id: deviceId }),
    })
    api.token = String(answer.access_token)
    return { deviceId: String(answer.device_id), token: api.token }
  } catch (thrown) {
    if (!(thrown instanceof ServerFault)) throw thrown
    if (thrown.errcode === 'M_USER_DEACTIVATED')
      throw new Hopeless(
        'the account is deactivated (MATRIX_ORACLE_ADMIN_USER_ID)',
        'Name another account.',
      )
    if (thrown.errcode === 'M_FORBIDDEN')
      throw new Hopeless(
        'the password was rejected (MATRIX_ORACLE_ADMIN_PASSWORD)',
        'Set the password of MATRIX_ORACLE_ADMIN_USER_ID.',
      )
    throw thrown
  }
}

/** The device that a token is for; undefined when the server rejects the token. */
async function deviceOf(
  api: ServerApi,
  env: MessagingEnv,
  token: string,
): Promise<string | undefined> {
  api.token = token
  let answer
  try {
    answer = await api.get(path`/account/whoami`)
  } catch (thrown) {
    if (!(thrown instanceof ServerFault)) throw thrown
    if (thrown.errcode === 'M_USER_DEACTIVATED')
      throw new Hopeless(
        'the account is deactivated (MATRIX_ORACLE_ADMIN_USER_ID)',
        'Name another account.',
      )
    if (thrown.kind === 'rejected') return undefined
    throw thrown
  }
  const owner = String(answer.user_id).slice(0, 255)
  if (owner !== env.MATRIX_ORACLE_ADMIN_USER_ID)
    throw new Hopeless(
      `the token belongs to ${owner}, not to MATRIX_ORACLE_ADMIN_USER_ID`,
      'Set a token of that account.',
    )
  if (typeof answer.device_id === 'string') return answer.device_id
  throw new Hopeless(
    'the access token has no device (MATRIX_ORACLE_ADMIN_ACCESS_TOKEN)',
    'Log in with a password, or set a token that a log-in gave.',
  )
}

function readKept(text: string | undefined): Kept {
  if (text === undefined)
    throw new Hopeless(
      'MATRIX_STORE_KEY is not the key that sealed the keys of the device; nothing was overwritten',
      'Set the key of before.',
    )
  const { deviceId, token } = JSON.parse(text)
  return { deviceId, token }
}
