import { RuntimeError } from '../../errors.ts'
import type { EnvSource } from '../../manifest/env.ts'
import type { Shape } from '../../plugin.ts'
import { readBeginning } from './read-beginning.ts'

/** How large the file of a variable may be. */
const mostBytes = 64 * 1024
const suffix = '_FILE'

/** An environment in which the variables that stand in files have their values. */
export interface FromFiles {
  readonly source: EnvSource
  /** The variables that were read from files. */
  readonly names: readonly string[]
  readonly faults: readonly RuntimeError[]
  readonly warnings: readonly string[]
}

/**
 * Reads every variable whose `<NAME>_FILE` is set from that file: secrets of containers and of supervisors come as files.
 * One newline at the end is dropped. A variable that is itself declared with such a name, as the path of a text, is left
 * alone.
 */
export async function readVariableFiles(
  given: EnvSource,
  shapes: Iterable<Shape>,
): Promise<FromFiles> {
  const declared = new Set([...shapes].flatMap((shape) => Object.keys(shape)))
  const source: Record<string, string | undefined> = { ...given }
  const names: string[] = []
  const faults: RuntimeError[] = []
  const warnings: string[] = []
  for (const name of declared) {
    const pointer = name + suffix
    const path = given[pointer]
    if (!path || declared.has(pointer)) continue
    delete source[pointer]
    const read = given[name] ? bothSet(name) : await valueIn(name, path)
    if (read instanceof RuntimeError) faults.push(read)
    else {
      source[name] = read.value
      names.push(name)
      if (read.isOpenToOthers)
        warnings.push(
          `${pointer} is "${path}", which every user of this machine may read: chmod o-r ${path}`,
        )
    }
  }
  return { source, names, faults, warnings }
}

const bothSet = (name: string) =>
  new RuntimeError('ENV_INVALID', `Both ${name} and ${name}${suffix} are set.`, {
    hint: 'Unset one of the two.',
  })

async function valueIn(name: string, path: string) {
  try {
    const { bytes, isOpenToOthers } = await readBeginning(path, mostBytes + 1)
    if (bytes.length > mostBytes) return unusable(name, path, 'it has more than 64 KiB')
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    const value = text.replace(/\r?\n$/, '')
    if (value === '') return unusable(name, path, 'it is empty')
    if (value.includes('\0')) return unusable(name, path, 'it is no text: it has a zero byte')
    return { value, isOpenToOthers }
  } catch (error) {
    if (error instanceof TypeError) return unusable(name, path, 'it is not text in UTF-8')
    return unusable(name, path, error instanceof Error ? error.message : String(error), error)
  }
}

const unusable = (name: string, path: string, why: string, cause?: unknown) =>
  new RuntimeError(
    'ENV_INVALID',
    `${name}${suffix} is "${path}", from which ${name} cannot be read: ${why}.`,
    { hint: 'Name a text file of at most 64 KiB that the server may read, or unset it.', cause },
  )
