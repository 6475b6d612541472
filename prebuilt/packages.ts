import { findPackageJSON } from 'node:module'
import { dirname } from 'node:path'

/** A package that is prebuilt; `of` names the package that imports it, where the runtime itself does not. */
export interface Prebuilt {
  readonly name: string
  readonly of?: string
}

/**
 * The packages that are prebuilt: finding and reading one of their hundreds of small modules costs Node far more than
 * what is in it. A group is used when one of its packages is first imported, as a whole or not at all. It may share files
 * with the groups before it; a package stands behind the package that imports it.
 */
export const prebuiltGroups = {
  start: [{ name: 'kysely' }, { name: 'zod' }],
  turns: [
    { name: '@langchain/core' },
    { name: 'langsmith', of: '@langchain/core' },
    { name: '@langchain/langgraph-checkpoint' },
    { name: '@langchain/langgraph' },
  ],
} as const satisfies Readonly<Record<string, readonly Prebuilt[]>>

/** Groups of packages by their names, in the order in which they may use each other. */
export type PrebuiltGroups = Readonly<Record<string, readonly Prebuilt[]>>

/** The folder of each package, or nothing where one of them is not installed. */
export function foldersOf(groups: PrebuiltGroups): Map<string, string> | undefined {
  const folders = new Map<string, string>()
  for (const { name, of } of Object.values(groups).flat()) {
    const file = manifestOf(name, of === undefined ? import.meta.url : `${folders.get(of)}/x.js`)
    if (!file) return undefined
    folders.set(name, dirname(file))
  }
  return folders
}

/** The package.json of a package, as an importer at `from` finds it. */
function manifestOf(name: string, from: string): string | undefined {
  try {
    return findPackageJSON(name, from)
  } catch {
    return undefined
  }
}
