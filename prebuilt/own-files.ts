import { lstatSync, realpathSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** From now on, the files below a folder find each other by `OwnFiles`. */
export function findOwnFiles(root: string): void {
  const files = new OwnFiles(root)
  registerHooks({
    resolve(specifier, context, next) {
      const url = files.find(specifier, context.parentURL)
      return url === undefined ? next(specifier, context) : { url, shortCircuit: true }
    },
  })
}

/**
 * Where a relative import from one TypeScript file of a folder to another one leads. Node asks the disk about every folder
 * on the way for every import again; here every file is asked about once. Undefined where the answer is not plain: another
 * kind of file, one that is missing, a symbolic link, an address with a query. Then Node has to answer.
 */
class OwnFiles {
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
    let isPlain = this.#files.get(href)
    if (isPlain === undefined) {
      isPlain = href.startsWith(this.#root) && !href.includes('?') && this.#look(href)
      this.#files.set(href, isPlain)
    }
    return isPlain ? href : undefined
  }

  #look(href: string): boolean {
    const path = fileURLToPath(href)
    const folder = dirname(path)
    let isReal = this.#folders.get(folder)
    if (isReal === undefined) {
      isReal = isRealPath(folder)
      this.#folders.set(folder, isReal)
    }
    return isReal && lstatSync(path, { throwIfNoEntry: false })?.isFile() === true
  }
}

/** Whether no part of a path is a symbolic link. */
function isRealPath(path: string): boolean {
  try {
    return realpathSync(path) === path
  } catch {
    return false
  }
}
