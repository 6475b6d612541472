import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import { generateMissing, type EnvSource } from '../../manifest/env.ts'
import type { Shape } from '../../plugin.ts'
import { fieldsIn } from '../base/fields.ts'
import type { DataDir } from '../store/data-dir.ts'

/** The process's variables over those of a `.env` file in the working directory, when there is one. */
export async function readEnvironment(): Promise<EnvSource> {
  return { ...(await readFileIfAny('.env')), ...process.env }
}

async function readFileIfAny(path: string): Promise<EnvSource> {
  try {
    return parseEnv(await readFile(path, 'utf8'))
  } catch (error) {
    if (fieldsIn(error).code === 'ENOENT') return {}
    throw error
  }
}

/** Where generated secrets are kept between two starts. */
const generatedFile = 'dev.env'

/**
 * Fills in the variables that may be generated, for authors only. They are kept in
 * `DATA_DIR/dev.env`, so that the next start has the same identity and keys.
 */
export async function withGenerated(
  source: EnvSource,
  shapes: readonly Shape[],
  dataDir: DataDir | undefined,
): Promise<EnvSource> {
  if (!dataDir) return { ...generateMissing(shapes, source), ...set(source) }
  const kept = parseEnv((await dataDir.read(generatedFile)) ?? '')
  const before = { ...kept, ...set(source) }
  const fresh = generateMissing(shapes, before)
  if (Object.keys(fresh).length === 0) return before
  const lines = Object.entries({ ...kept, ...fresh }).map(([name, value]) => `${name}="${value}"\n`)
  const content = `# Generated for development. Delete this file to get a new identity and new keys.\n${lines.join('')}`
  if (Object.keys(kept).length > 0) {
    await dataDir.write(generatedFile, content)
    return { ...fresh, ...before }
  }
  // Another server on a shared folder may have been first: what the file holds afterwards counts.
  return { ...parseEnv(await dataDir.writeOnce(generatedFile, content)), ...set(source) }
}

/** The words that become the key of the author's own user, as a mnemonic becomes the oracle's. */
export const authorsWords = (dataDir: DataDir): Promise<string> =>
  dataDir.writeOnce('dev-user', randomBytes(32).toString('hex'))

/** The variables that have a value: one that is set to nothing counts as unset. */
function set(source: EnvSource): EnvSource {
  return Object.fromEntries(Object.entries(source).filter(([, value]) => value))
}
