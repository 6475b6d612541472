import { existsSync, lstatSync, realpathSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** From now on, the files below a folder find each other, and what they import beside each other, by `OwnFiles`. */
export function findOwnFiles(root: string): void {
  const files = new OwnFiles(root)
  /** What a name means in every plain file of the folder. The names that a process imports are the bound. */
  const names = new Map<string, Found>()
  registerHooks({
    resolve(specifier, context, next) {
      const url = files.find(specifier, context.parentURL)
      if (url !== undefined) return { url, format: 'module-typescript', shortCircuit: true }
      // What requires a name may get another file, and so may who says its type.
      const isPlain =
        isName.test(specifier) &&
        context.conditions.includes('import') &&
        Object.keys(context.importAttributes).length === 0 &&
        files.isPlain(context.parentURL)
      if (!isPlain) return next(specifier, context)
      let found = names.get(specifier)
      if (!found) {
        found = { ...next(specifier, context), shortCircuit: true }
        names.set(specifier, found)
      }
      return found
    },
  })
}

type Found = ReturnType<NonNullable<Parameters<typeof registerHooks>[0]['resolve']>>

/** The name of a package, of a file in one, or of a file by the `imports` of ours. */
const isName = /^[#@a-z]/

/**
 * Where a relative import from one TypeScript file of a folder to another one leads. Node asks the disk about every folder
 * on the way, and about the package of the file, for every import again; here each file and each folder is asked about once.
 * Undefined where the answer is not plain: another kind of file, one that is missing, a symbolic link, a package of its own, an
 * address with a query. Then Node has to answer.
 */
export class OwnFiles {
  readonly #root: string
  /** By the address of a file, whether it is plain. The files that a process imports are the bound. */
  readonly #files = new Map<string, boolean>()
  readonly #folders = new Map<string, boolean>()

  /** `root` is the address of the folder, with a slash at its end. */
  constructor(root: string) {
    this.#root = root
  }

  /** The address of the file that `specifier` means in the file at `parent`. */
  find(specifier: string, parent: string | undefined): string | undefined {
    if (!/^\.\.?\/[-\w./]+\.ts$/.test(specifier) || !parent?.startsWith(this.#root))
      return undefined
    const { href } = new URL(specifier, parent)
    return this.isPlain(href) ? href : undefined
  }

  /** Whether an address is that of a TypeScript file in the folder that belongs to no package beneath it. */
  isPlain(href: string | undefined): boolean {
    if (href === undefined) return false
    let isPlain = this.#files.get(href)
    if (isPlain === undefined) {
      isPlain = href.startsWith(this.#root) && /^[^?#]+\.ts$/.test(href) && this.#look(href)
      this.#files.set(href, isPlain)
    }
    return isPlain
  }

  #look(href: string): boolean {
    const path = fileURLToPath(href)
    const folder = dirname(path)
    return (
      this.#isPlainFolder(folder) && lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
    )
  }

  #isPlainFolder(folder: string): boolean {
    let isPlain = this.#folders.get(folder)
    if (isPlain === undefined) {
      isPlain = isRealPath(folder) && this.#isOfRootsPackage(folder)
      this.#folders.set(folder, isPlain)
    }
    return isPlain
  }

  /** Whether neither the folder nor one on the way to it has a package or packages of its own. */
  #isOfRootsPackage(folder: string): boolean {
    if (join(folder, '/') === fileURLToPath(this.#root)) return true
    return (
      !['package.json', 'node_modules'].some((name) => existsSync(join(folder, name))) &&
      this.#isPlainFolder(dirname(folder))
    )
  }
}

/** Whether no part of a path is a symbolic link. */
function isRealPath(path: string): boolean {
  try {
    return realpathSync.native(path) === path
  } catch {
    return false
  }
}
