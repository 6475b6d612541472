import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** How long imports go on without a pause, and how long the process then answers others at least. */
const [sliceMs, leastPauseMs] = [5, 5]

/** More files than any of the roots has: a graph without an end is left to whoever imports it. */
const mostFiles = 3_000

/**
 * Imports modules so that nobody waits for long: each file by itself, after all that it imports, with pauses between them. An
 * import of the root alone would evaluate its hundreds of files at once. What does not become clear here, a file that is
 * missing, a condition of its package, another copy of it, is left to the import of the file that wants it, which finds
 * whatever was already imported. Names are those by which the file at `importer` imports; `goesOn` is asked before each file.
 */
export async function importInPieces(
  names: readonly string[],
  importer: string,
  goesOn: () => boolean,
): Promise<void> {
  const walk = new Walk(goesOn)
  for (const name of names) await walk.visit(addressOf(name, importer))
}

class Walk {
  readonly #goesOn: () => boolean
  /** The files that were met, each with its depth while what it imports is looked at. */
  readonly #met = new Map<string, number>()
  /** Those of them that were not imported yet. */
  readonly #open: string[] = []
  #spent = 0

  constructor(goesOn: () => boolean) {
    this.#goesOn = goesOn
  }

  /**
   * Imports what a file imports, and then the file. Of files that import each other only the one that was met first is imported by
   * itself: entered elsewhere, such a circle may not work. Resolves to the least depth of a file that leads back here.
   */
  async visit(url: string | undefined, depth = 0): Promise<number> {
    if (url === undefined) return Infinity
    const met = this.#met.get(url)
    if (met !== undefined || this.#met.size >= mostFiles) return met ?? Infinity
    this.#met.set(url, depth)
    this.#open.push(url)
    let back = depth
    const source = await beginningOf(url).catch(() => undefined)
    if (source !== undefined && this.#goesOn()) {
      const began = performance.now()
      const wanted = importsOf(source, url)
      this.#spent += performance.now() - began
      for (const one of wanted) back = Math.min(back, await this.visit(one, depth + 1))
      if (back === depth && this.#goesOn()) await this.#import(url)
    }
    if (back !== depth) return back
    for (const one of this.#open.splice(this.#open.indexOf(url))) this.#met.set(one, Infinity)
    return Infinity
  }

  async #import(url: string): Promise<void> {
    const began = performance.now()
    // What cannot be imported says so to whoever needs it.
    await import(url).catch(() => undefined)
    this.#spent += performance.now() - began
    if (this.#spent < sliceMs) return
    await pause(Math.max(leastPauseMs, this.#spent / 2), undefined, { ref: false })
    this.#spent = 0
  }
}

/** Where imports stand in a file, in bytes. One that stands behind is found by the import of the file itself. */
const beginningBytes = 64 * 1024

async function beginningOf(url: string): Promise<string> {
  const file = await open(fileURLToPath(url))
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(beginningBytes))
    return buffer.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

/** A static import or export from another file, at the beginning of a line; types alone are nothing to import. */
const fromFile = /^(?:import|export)(?!\s+type\b)(?:[\s\w$*{},:]*?\bfrom)?\s*(['"])([^'"\n]+)\1/gm

/** The addresses of the files that a file imports, as far as they are plain. */
function importsOf(source: string, url: string): string[] {
  return [...source.matchAll(fromFile)].flatMap(([, , name = '']) => addressOf(name, url) ?? [])
}

/** The address of the file that a name means in the file at `importer`, where it means the same here. */
function addressOf(name: string, importer: string): string | undefined {
  if (isBuiltin(name) || name.startsWith('#')) return undefined
  const [, packageName] = /^(@[^/:]+\/[^/:]+|[^@/:.][^/:]*)(?:\/|$)/.exec(name) ?? []
  if (packageName !== undefined && homeOf(packageName, importer) !== homeOf(packageName, here))
    return undefined
  try {
    const isRelative = /^\.\.?\//.test(name)
    // Also where a file is plain: another one may have been built of it, which is imported in its place.
    const address = import.meta.resolve(isRelative ? new URL(name, importer).href : name)
    return address.startsWith('file:') ? address : undefined
  } catch {
    return undefined
  }
}

const here = import.meta.url

/** The folder in which Node finds a package for a file: the nearest one above the file. */
function homeOf(packageName: string, file: string): string | undefined {
  for (let folder = new URL('./', file); ; folder = new URL('../', folder)) {
    const home = new URL(`node_modules/${packageName}/`, folder)
    if (existsSync(home)) return home.href
    if (folder.pathname === '/' || folder.href === new URL('../', folder).href) return undefined
  }
}
