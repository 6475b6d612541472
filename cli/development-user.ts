import { authorsWords } from '../core/runtime/boot/environment.ts'
import { isForAuthors } from '../core/manifest/env.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { signerFromMnemonic } from '../core/runtime/auth/did/signer.ts'
import { createWallet, type Wallet } from '../core/testing/wallet.ts'
import { loadEnvFileIfAny } from './env-file.ts'

/** The development user, who is the same at every call: the key is in DATA_DIR, beside the keys that the server generates. */
export async function developmentUser(): Promise<Wallet> {
  const env = loadEnvFileIfAny()
  if (!isForAuthors(env)) throw new Error(`There is no development user in ${env.NODE_ENV}.`)
  const dataDir = await openDataDir(env.DATA_DIR || '.data')
  return createWallet(await authorsWords(dataDir))
}

/** The address of the server, as its environment gives it. */
export function serverAddress(): string {
  const env = loadEnvFileIfAny()
  return (env.PUBLIC_URL || `http://127.0.0.1:${env.PORT || 3000}`).replace(/\/$/, '')
}

/** The oracle's DID: from the running server, else from ORACLE_DID, else from the oracle's mnemonic. */
export async function oracleDid(address: string): Promise<string> {
  const running = await fetch(`${address}/.well-known/oracle.json`).catch(() => undefined)
  if (running?.ok) return ((await running.json()) as { did: string }).did
  const env = loadEnvFileIfAny()
  const dataDir = await openDataDir(env.DATA_DIR || '.data')
  const generated = /^ORACLE_MNEMONIC="(.+)"$/m.exec((await dataDir.read('dev.env')) ?? '')?.[1]
  const mnemonic = env.ORACLE_MNEMONIC || generated
  if (env.ORACLE_DID) return env.ORACLE_DID
  if (!mnemonic)
    throw new Error(
      `No server answers at ${address}, and no server has run here yet. Start one: oracle-runtime start`,
    )
  return signerFromMnemonic(mnemonic).did
}
