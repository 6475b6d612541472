import { utimes } from 'node:fs/promises'
import { createRequire, registerHooks } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtFile, currentList } from './own-list.ts'

/** How often a server says that it uses a build, of which it may import a part at any time. */
const signEveryMs = 600_000

/**
 * From now on, imports of the sources of a checkout get what was built of them in `folder`. Where one of them is not what it
 * was then, all are imported as they are, and the answer is false.
 */
export function useOwn(folder: string, root: string, listName?: string): boolean {
  const list = currentList(folder, root, listName)
  if (!list) return false
  const build = join(folder, list.build)
  const [from, to] = [`${pathToFileURL(root)}/`, `${pathToFileURL(build)}/`]
  const built = new Map<string, string>()
  for (const [path, , , isModule] of list.files)
    if (isModule) built.set(from + path, to + builtFile(path))
  registerHooks({
    resolve(specifier, context, next) {
      // What is built imports a package as its sources would.
      const isName = context.parentURL?.startsWith(to) && /^[#@\w]/.test(specifier)
      const found = next(
        specifier,
        isName ? { ...context, parentURL: `${from}server.ts` } : context,
      )
      // What a process is started with is the source, which knows that it was.
      const url = context.parentURL === undefined ? undefined : built.get(found.url)
      return url === undefined ? found : { ...found, url, format: 'module' }
    },
  })
  nameSources(to)
  const sign = () => utimes(build, new Date(), new Date()).catch(() => undefined)
  setInterval(sign, signEveryMs).unref()
  void sign()
  return true
}

/** From now on, the stack of an error names the lines of the sources from which the files below an address were built. */
function nameSources(built: string): void {
  const before = Error.prepareStackTrace
  let named: (frame: NodeJS.CallSite) => string = String
  let isAsked = false
  Error.prepareStackTrace = (error, frames) => {
    let texts = frames.map((frame) => String(frame))
    try {
      if (!isAsked && texts.some((text) => text.includes(built))) {
        isAsked = true // before the import, which may read stacks as well
        named = requireLines().sourcesOf(built)
      }
      if (isAsked) texts = frames.map((frame) => named(frame))
    } catch {
      // The places in the built files are places as well.
    }
    // Node's own writes the first line, and joins what follows.
    if (before) return before(error, texts as unknown as NodeJS.CallSite[])
    return [String(error), ...texts].join('\n    at ')
  }
}

/** Most processes read no stack until they listen. */
const requireLines = (): typeof import('./own-lines.ts') =>
  createRequire(import.meta.url)('./own-lines.ts')
