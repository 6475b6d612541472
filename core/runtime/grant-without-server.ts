import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import { type EnvSource, isForAuthors } from '../manifest/env.ts'
import { kernelEnv } from '../manifest/kernel-env.ts'
import type { AnyPlugin, Log } from '../plugin.ts'
import { Delegations } from './auth/grants/delegations.ts'
import { Grants } from './auth/grants/grants.ts'
import type { Grant } from './auth/grants/rows.ts'
import { signerFromMnemonic } from './auth/did/signer.ts'
import { withGenerated } from './boot/environment.ts'
import { readGrantRequest } from './auth/grants/request.ts'
import { planBoot } from './boot/plan.ts'
import { kernelRouteKeys } from './kernel-routes.ts'
import { kernelMigrations } from './kernel-tables.ts'
import { openDataDir, type DataDir } from './store/data-dir.ts'
import { openStore } from './store/store.ts'
import { readVariableFiles } from './variables/from-files.ts'

/** What an operator's command granted, and whether that was new. */
export interface Granted {
  readonly grant: Pick<
    Grant,
    'id' | 'did' | 'capabilities' | 'resource' | 'expiresAt' | 'car' | 'note'
  >
  readonly isNew: boolean
}

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }
const answerMs = 10_000

/**
 * Grants in the database that the environment names, whether a server runs on it or not. A PostgreSQL is shared. An
 * embedded database is written here while no server has it; otherwise the command asks the server that has it.
 */
export async function grantWithoutServer(
  bare: EnvSource,
  plugins: readonly AnyPlugin[],
  request: unknown,
): Promise<Granted> {
  const shapes = [kernelEnv, ...plugins.map(({ definition }) => definition.env ?? {})]
  const { source: given, faults } = await readVariableFiles(bare, shapes)
  if (faults[0]) throw faults[0]
  const forAuthors = isForAuthors(given)
  const needsFolder = forAuthors || !given.DATABASE_URL
  const dataDir = needsFolder ? await openDataDir(given.DATA_DIR || '.data') : undefined
  const source = forAuthors ? await withGenerated(given, shapes, dataDir) : given
  if (source.DATABASE_URL || !dataDir) return grantIn(source, plugins, request, undefined)
  let lock
  try {
    lock = await dataDir.lock({ pid: process.pid })
  } catch (error) {
    const { address } = holderOf(error)
    return askServer(address, source.OPERATOR_TOKEN, request)
  }
  try {
    return await grantIn(source, plugins, request, dataDir)
  } finally {
    await lock.release()
  }
}

async function grantIn(
  source: EnvSource,
  plugins: readonly AnyPlugin[],
  request: unknown,
  dataDir: DataDir | undefined,
): Promise<Granted> {
  const { config, records } = planBoot({
    plugins,
    features: {},
    source,
    kernelRoutes: kernelRouteKeys,
  })
  if (!config.ORACLE_MNEMONIC)
    throw new RuntimeError('UNAVAILABLE', 'No signing key is loaded, so nothing can be granted.', {
      hint: 'Set ORACLE_MNEMONIC as the server has it.',
    })
  const signer = signerFromMnemonic(config.ORACLE_MNEMONIC)
  const oracleDid = config.ORACLE_DID ?? signer.did
  const entity = config.ORACLE_ENTITY_DID
  const ownDids = [oracleDid, signer.did, ...(entity === undefined ? [] : [entity])]
  const wanted = await readGrantRequest({ records, ownDids }, request)
  const store = await openStore({ databaseUrl: config.DATABASE_URL, dataDir, log: silent })
  try {
    await store.migrate('kernel', kernelMigrations.kernel)
    const delegations = new Delegations({ db: store.db, kind: store.kind })
    const grants = new Grants({ store, signer, oracleDid, delegations, log: silent })
    return await grants.issue(wanted)
  } finally {
    await store.close()
  }
}

const holder = z.object({ address: z.string().optional() })

/** The address of the server that has the data directory. Throws any other fault of the directory as it is. */
function holderOf(error: unknown): { readonly address?: string } {
  if (!(error instanceof RuntimeError) || error.code !== 'DATA_DIR_IN_USE') throw error
  const { address } = holder.safeParse(error.details).data ?? {}
  if (address !== undefined) return { address }
  throw new RuntimeError(
    'DATA_DIR_IN_USE',
    `${error.message} That server has not said yet where it answers.`,
    {
      hint: 'Wait until that server listens and try again, or stop it.',
    },
  )
}

const answered = z.object({
  id: z.string(),
  did: z.string(),
  capabilities: z.array(z.string()),
  resource: z.string(),
  expiresAt: z.string(),
  car: z.string(),
  note: z.string().optional(),
})
const refused = z.object({
  code: z.string(),
  message: z.string(),
  hint: z.string().optional(),
  details: z.unknown().optional(),
})

async function askServer(
  address: string | undefined,
  tokens: string | undefined,
  request: unknown,
): Promise<Granted> {
  // `name:value,other:value` or one value alone: any of them opens the route.
  const [first = ''] = (tokens ?? '').split(',')
  const token = first.slice(first.indexOf(':') + 1).trim()
  if (token === '')
    throw new RuntimeError(
      'UNAUTHORIZED',
      `The server at ${address} has the database, and asking that server takes OPERATOR_TOKEN, which is unset.`,
      { hint: 'Set OPERATOR_TOKEN as the server has it, or stop the server.' },
    )
  const response = await fetch(`${address}/grants`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(request),
    signal: AbortSignal.timeout(answerMs),
  }).catch((cause: unknown) => {
    throw new RuntimeError(
      'UNAVAILABLE',
      `The server that has the database does not answer at ${address}.`,
      { hint: 'Look at the log of that server, or stop it and try again.', cause },
    )
  })
  const body: unknown = await response.json().catch(() => undefined)
  const grant = answered.safeParse(body)
  if (response.ok && grant.success) return { grant: grant.data, isNew: response.status === 201 }
  const { code, message, ...rest } = refused.safeParse(body).data ?? {
    code: 'UPSTREAM_FAILED',
    message: `The server at ${address} answered ${response.status}.`,
  }
  throw new RuntimeError(code, message, { ...rest, status: response.status })
}
