import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'

type Env = Readonly<Record<string, string | undefined>>

const answerMs = 60_000

/** The environment as the server has it: that of the process, over a `.env` file. */
export function environment(): Env {
  const file = existsSync('.env') ? parseEnv(readFileSync('.env', 'utf8')) : {}
  return { ...file, ...process.env }
}

/** Asks an operator's route of the running server, and resolves to its answer. */
export async function askServer(env: Env, method: string, path: string): Promise<unknown> {
  const address = (env.PUBLIC_URL || `http://127.0.0.1:${env.PORT || 3000}`).replace(/\/$/, '')
  const token = tokenOf(env)
  let response: Response
  try {
    response = await fetch(address + path, {
      method,
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(answerMs),
    })
  } catch {
    throw new Error(
      `No server answers at ${address}. Start it, or say with PUBLIC_URL or PORT where it is.`,
    )
  }
  const body: unknown = await response.json().catch(() => undefined)
  if (response.ok) return body
  const said: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, 'message') : ''
  throw new Error(
    typeof said === 'string' && said ? said : `${address} answered ${response.status}.`,
  )
}

/** The first of the operator's tokens: of the environment, or the one that a server for authors has made up. */
function tokenOf(env: Env): string | undefined {
  const made = join(env.DATA_DIR || '.data', 'dev.env')
  const kept = existsSync(made) ? parseEnv(readFileSync(made, 'utf8')).OPERATOR_TOKEN : undefined
  const first = (env.OPERATOR_TOKEN || kept)?.split(',')[0]?.trim()
  return first && first.slice(first.indexOf(':') + 1)
}
