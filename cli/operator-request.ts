import { parseEnv } from 'node:util'
import { RuntimeError } from '../core/errors.ts'
import { kernelEnv } from '../core/manifest/kernel-env.ts'
import { openDataDir } from '../core/runtime/store/data-dir.ts'
import { readVariableFiles } from '../core/runtime/variables/from-files.ts'
import { serverAddress } from './development-user.ts'
import { loadEnvFileIfAny } from './env-file.ts'

/** How long an answer of the server may take. */
const answerMs = 10_000

/** Asks an operator's route of the running server, and resolves to its answer. */
export async function operatorRequest(method: string, path: string): Promise<unknown> {
  const address = serverAddress()
  const token = await operatorToken()
  const response = await fetch(address + path, {
    method,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    signal: AbortSignal.timeout(answerMs),
  }).catch((cause: unknown) => {
    throw new RuntimeError('UNAVAILABLE', `No server answers at ${address}.`, {
      hint: 'Start the server, or say with PUBLIC_URL or PORT where it is.',
      cause,
    })
  })
  const body: unknown = await response.json().catch(() => undefined)
  if (response.ok) return body
  const told = typeof body === 'object' && body !== null ? body : {}
  const text = (name: string): string | undefined => {
    const value: unknown = Reflect.get(told, name)
    return typeof value === 'string' ? value : undefined
  }
  const sentence = text('message') ?? `The server at ${address} answered ${response.status}.`
  throw new RuntimeError('UPSTREAM_FAILED', sentence, { hint: text('hint') })
}

/** The first of the operator's keys: `name:value,other:value`, or one value alone. */
async function operatorToken(): Promise<string | undefined> {
  const { source: env, faults } = await readVariableFiles(loadEnvFileIfAny(), [kernelEnv])
  if (faults[0]) throw faults[0]
  const generated = async () => {
    const dataDir = await openDataDir(env.DATA_DIR || '.data')
    return parseEnv((await dataDir.read('dev.env')) ?? '').OPERATOR_TOKEN
  }
  const keys = env.OPERATOR_TOKEN || (env.DATA_DIR === ':memory:' ? undefined : await generated())
  const first = keys?.split(',')[0]?.trim()
  return first && first.slice(first.indexOf(':') + 1)
}
