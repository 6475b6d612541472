import { RuntimeError } from '../../errors.ts'
import type { Log } from '../../plugin.ts'
import type { Signer } from '../auth/did/signer.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import type { RateLimits } from '../http/limits/rate-limit.ts'
import type { DataDir } from '../store/data-dir.ts'
import { didHasher } from './did-hash.ts'
import { ErasureFile } from './erasure-file.ts'
import { Erasures } from './erasures.ts'
import type { KernelHands } from './kernel-erase.ts'
import type { KeptRoutesOptions } from './routes.ts'
import { UserData } from './user-data.ts'

/** What is needed to tell of users' data and to erase them. */
export interface KeptOptions extends KernelHands {
  readonly records: readonly PluginRecord[]
  readonly signer: Signer | undefined
  readonly dataDir: DataDir | undefined
  readonly rateLimits: RateLimits
  readonly log: Log
  readonly leaseMs: number
}

const hourMs = 3_600_000

/** Puts together what the routes of users' data work on. */
export function openKept(options: KeptOptions): KeptRoutesOptions {
  const { records, signer, dataDir, rateLimits, store, log, leaseMs } = options
  const userData = new UserData({ records, hands: options, log })
  // Where no key is loaded nobody authenticates, so nobody can ask for an erasure either.
  const hashOf = signer ? didHasher(signer) : noHash
  const file = dataDir && store.kind === 'sqlite' ? new ErasureFile(dataDir, log) : undefined
  const erasures = new Erasures({ store, userData, hashOf, file, log, leaseMs })
  const countExport = rateLimits.limit('me-export', 1, hourMs, {
    of: ({ state }) => String(state.caller),
    what: 'exports of this caller',
  })
  return { userData, erasures, log, countExport }
}

const noHash = (): never => {
  throw new RuntimeError('UNAVAILABLE', 'No signing key is loaded.', {
    hint: 'Set ORACLE_MNEMONIC: by its key erased users are recognised.',
  })
}
