import { readFileSync, statSync } from 'node:fs'
import { findPackageJSON, isBuiltin } from 'node:module'
import { join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin, PluginContext } from 'rolldown'
import { OwnFiles } from './own-files.ts'
import { builtFile, type OwnFile } from './own-list.ts'
import { waits, withPlace } from './own-places.ts'

/** How much younger than now a source must be: file systems tell times by ticks, and an edit may be within the same one. */
const tickMs = 100

/** The sources of a checkout as the builder meets them. */
export class OwnSources {
  /** The file that a start imports, and with it all the others. */
  readonly entry: string
  readonly #root: string
  readonly #name: string
  readonly #plain: OwnFiles
  /** Each file that was read, by its path in the checkout, as it was before that. */
  readonly #read = new Map<string, OwnFile>()
  /** What cannot be one file with others: who waits for an import, or imports what may import a source. */
  readonly #apart = new Set<string>()
  #together: ReadonlySet<string> = new Set()
  #ofStart: readonly string[] = []

  constructor(root: string) {
    this.#root = root
    this.entry = join(root, 'server.ts')
    this.#plain = new OwnFiles(`${pathToFileURL(root)}/`)
    this.#note('package.json', false)
    this.#name = manifestOf(join(root, 'package.json')).name ?? ''
  }

  files(): readonly OwnFile[] {
    return [...this.#read.values()]
  }

  /** The files by which all that a start imports can be imported. */
  ofStart(): readonly string[] {
    return this.#ofStart
  }

  /** What a built file is called that is made of one source. */
  nameOf(id = ''): string {
    return this.#pathOf(id)?.replace(/\.ts$/, '') ?? '[name]'
  }

  /** Whether a source goes into the file of a start. */
  isTogether(id: string): boolean {
    return this.#together.has(id)
  }

  plugin(): Plugin {
    const sources = this
    return {
      name: 'sources-of-the-checkout',
      resolveId(id, importer) {
        return sources.#resolve(this, id, importer)
      },
      load(id) {
        const path = sources.#pathOf(id)
        if (path === undefined) return
        const isModule = path.endsWith('.ts')
        sources.#note(path, isModule)
        if (isModule && id !== sources.entry)
          this.emitFile({ type: 'chunk', id, fileName: builtFile(path) })
      },
      transform: {
        // An `await` of a module stands at the beginning of a line, nearly always; to parse each file costs as much as all the rest.
        filter: { code: /import\.meta|^\S.*\bawait\b/m },
        handler(code, id) {
          if (!id.endsWith('.ts') || sources.#pathOf(id) === undefined) return
          const tree = this.parse(code, { lang: 'ts' })
          if (waits(tree)) sources.#apart.add(id)
          return withPlace(tree, code, id)
        },
      },
      buildEnd() {
        sources.#together = sources.#findTogether(this)
      },
    }
  }

  /** What a start imports, without what has to stay apart, and without whatever leads there. */
  #findTogether(context: PluginContext): Set<string> {
    const graph = new Map<string, readonly string[]>()
    const visit = (id: string): void => {
      const known = context.getModuleInfo(id)
      if (!known || graph.has(id) || this.#pathOf(id) === undefined) return
      graph.set(id, known.importedIds)
      for (const one of known.importedIds) visit(one)
    }
    const known = context.getModuleInfo(this.entry)
    // The entry may wait for what it imports.
    this.#ofStart = [
      ...(known?.importedIds ?? []),
      ...(known?.dynamicallyImportedIds ?? []),
    ].filter((id) => this.#pathOf(id) !== undefined)
    for (const id of [this.entry, ...this.#ofStart]) visit(id)
    const apart = [...graph].flatMap(([id, imported]) =>
      this.#apart.has(id) || imported.some((one) => one.startsWith('file:')) ? [id] : [],
    )
    const together = new Set(graph.keys())
    const importers = Map.groupBy(
      [...graph].flatMap(([id, imported]) => imported.map((one) => ({ id, one }))),
      ({ one }) => one,
    )
    for (let id; (id = apart.pop()) !== undefined;)
      if (together.delete(id)) apart.push(...(importers.get(id) ?? []).map((each) => each.id))
    return together
  }

  /** Plain sources, and the package's manifest, come into the build. All else is imported when it runs. */
  async #resolve(context: PluginContext, id: string, importer: string | undefined) {
    if (importer === undefined || isBuiltin(id)) return undefined
    if (!/^[./#]/.test(id) && !this.#isOwnName(id)) {
      if (this.#knowsUs(id, importer)) this.#apart.add(importer)
      return { id, external: true }
    }
    const found = await context.resolve(id, importer, { skipSelf: true })
    if (!found || this.#pathOf(found.id) !== undefined) return found
    return { id: pathToFileURL(found.id).href, external: true }
  }

  #isOwnName(id: string): boolean {
    return id === this.#name || id.startsWith(`${this.#name}/`)
  }

  /** Whether a package may import a source of this checkout. */
  #knowsUs(id: string, importer: string): boolean {
    const file = manifestFile(id, importer)
    if (file === undefined) return false
    const { dependencies, peerDependencies, optionalDependencies } = manifestOf(file)
    return this.#name in { ...dependencies, ...peerDependencies, ...optionalDependencies }
  }

  /** The path in the checkout of a file that may come into the build. */
  #pathOf(id: string): string | undefined {
    const path = relative(this.#root, id).split(sep).join('/')
    if (path === 'package.json') return path
    // Another sign would be another one in an address.
    if (!/^[-\w./]+$/.test(path)) return undefined
    return this.#plain.isPlain(pathToFileURL(id).href) ? path : undefined
  }

  #note(path: string, isModule: boolean): void {
    const { size, mtimeMs } = statSync(join(this.#root, path))
    if (Date.now() - mtimeMs < tickMs) throw new Error(`${path} is being written: build later.`)
    this.#read.set(path, [path, size, mtimeMs, isModule])
  }
}

/** What is read of a package.json. */
interface Manifest {
  readonly name?: string
  readonly dependencies?: object
  readonly peerDependencies?: object
  readonly optionalDependencies?: object
}

/** The manifest of a package as a file finds it; one that is not installed has none, and is perhaps never imported. */
function manifestFile(name: string, importer: string): string | undefined {
  try {
    return findPackageJSON(name, pathToFileURL(importer))
  } catch {
    return undefined
  }
}

const manifestOf = (file: string): Manifest => JSON.parse(readFileSync(file, 'utf8'))
