import { existsSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/** The process's variables over those of `.env`, as the server reads them. */
export function loadEnvFileIfAny(): Record<string, string | undefined> {
  return { ...(existsSync('.env') ? parseEnv(readFileSync('.env', 'utf8')) : {}), ...process.env }
}
