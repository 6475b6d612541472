import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * A source as it was prebuilt: its path in the checkout, its size, when it was written, and whether imports of it get what
 * was built of it. A file that is only read into another one is imported as it is.
 */
export type OwnFile = readonly [path: string, bytes: number, writtenMs: number, isModule: boolean]

/** What is known of the sources of a checkout that were prebuilt. */
export interface OwnList {
  readonly format: typeof listFormat
  /** Where the checkout was then: built files name their sources by whole addresses. */
  readonly root: string
  /** The folder of this build, beside the list. */
  readonly build: string
  readonly files: readonly OwnFile[]
}

/** A list of another format was written by another version of this code, and counts as none. */
export const listFormat = 1

/** The list's name in the folder of what was built. */
export const listFile = 'own.json'

/** What was built of a source, by its path in the folder of the build. */
export const builtFile = (path: string): string => `${path.slice(0, -'.ts'.length)}.mjs`

/** The list of a folder, or nothing where there is none, or a source is not what it was when it was prebuilt. */
export function currentList(folder: string, root: string, name = listFile): OwnList | undefined {
  const list = readList(join(folder, name))
  if (list?.format !== listFormat || list.root !== root) return undefined
  const isCurrent =
    list.files.every(([path, bytes, writtenMs]) => {
      const found = statSync(`${root}/${path}`, { throwIfNoEntry: false })
      return found?.size === bytes && found.mtimeMs === writtenMs
    }) && statSync(join(folder, list.build), { throwIfNoEntry: false }) !== undefined
  return isCurrent ? list : undefined
}

function readList(path: string): OwnList | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}
