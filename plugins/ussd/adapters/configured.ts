import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { type Adapter, adapterSchema } from './adapter.ts'
import { knownAdapters } from './known.ts'

const mostAdapters = 16

/** The adapters that an operator lists: names of known ones, and paths of JSON files. Throws a sentence for the operator. */
export function configuredAdapters(list: string): Adapter[] {
  const entries = list.split(',').flatMap((entry) => entry.trim() || [])
  if (entries.length > mostAdapters) throw new Error(`it lists more than ${mostAdapters} adapters`)
  const adapters = entries.map((entry) =>
    entry.endsWith('.json') ? readAdapter(entry) : knownOf(entry),
  )
  const names = adapters.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new Error(`two adapters have the name "${twice}"`)
  return adapters
}

function knownOf(name: string): Adapter {
  const known = knownAdapters.find((adapter) => adapter.name === name)
  if (known) return known
  const names = knownAdapters.map((adapter) => adapter.name)
  throw new Error(`"${name}" is neither a JSON file nor one of ${names.join(', ')}`)
}

function readAdapter(path: string): Adapter {
  let json: unknown
  try {
    json = JSON.parse(readFileSync(path, 'utf8'))
  } catch (cause) {
    throw new Error(`"${path}" is no JSON file that can be read`, { cause })
  }
  const read = adapterSchema.safeParse(json)
  if (read.success) return read.data
  throw new Error(`"${path}" is no adapter: ${z.prettifyError(read.error)}`)
}
