import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/** The variables of `.env`, overridden by the process's own, as the server reads them. */
export function loadEnvFileIfAny(): Record<string, string | undefined> {
  return { ...(existsSync('.env') ? parseEnv(readFileSync('.env', 'utf8')) : {}), ...process.env }
}
