import { statSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join, relative, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown, type Plugin, type PluginContext } from 'rolldown'
import { OwnFiles } from './own-files.ts'
import { marksOf } from './source-map.ts'
import { builtFile, listFile, listFormat, type OwnFile, type OwnList } from './own-list.ts'

/** What a start imports, and all that this imports. */
const entry = 'server.ts'

/**
 * Makes JavaScript of the sources of a checkout that its server imports: one file of all that a start imports, and one of each
 * that is imported later. Every source has a file that exports what it exports, so whoever imports a source by its address
 * gets the same copy of it as all others.
 */
export async function buildOwn(folder: string, root: string): Promise<void> {
  const sources = new Sources(root)
  const bundle = await rolldown({
    cwd: root,
    input: join(root, entry),
    platform: 'node',
    // Nothing is left out and nothing written anew but types: that is how Node reads the sources.
    treeshake: false,
    tsconfig: false,
    transform: { target: 'esnext', typescript: { onlyRemoveTypeImports: true } },
    resolve: { conditionNames: ['oracle-runtime-source', 'node', 'import', 'default'] },
    plugins: [sources.plugin()],
    logLevel: 'silent',
  })
  const build = `own-${Date.now()}-${process.pid}`
  // Another name until it is whole, so that nobody takes what a killed build leaves behind for a build.
  const fresh = join(folder, `new-${build}`)
  try {
    await mkdir(fresh, { recursive: true })
    const { output } = await bundle.write({
      dir: fresh,
      format: 'esm',
      entryFileNames: '[name].mjs',
      chunkFileNames: 'shared/[name]-[hash].mjs',
      comments: { legal: true, jsdoc: false, annotation: false },
      sourcemap: true,
      sourcemapExcludeSources: true,
      keepNames: true,
      // A process keeps the text of what it imports, in two bytes a sign where one of them is not ASCII. Lines stay lines: a
      // fault that ends the process is shown with the line in which it came up.
      minify: {
        compress: false,
        mangle: false,
        codegen: { removeWhitespace: false, asciiOnly: true },
      },
      codeSplitting: { groups: [{ name: 'start', test: (id) => sources.isOfStart(id) }] },
    })
    for (const { fileName } of output)
      if (fileName.endsWith('.map')) await mark(join(fresh, fileName))
    const list: OwnList = { format: listFormat, root, build, files: sources.files() }
    await rename(fresh, join(folder, build))
    const listed = join(folder, `new-${build}.json`)
    await writeFile(listed, JSON.stringify(list))
    await rename(listed, join(folder, listFile))
    await tidy(folder, build)
  } finally {
    await bundle.close()
    await rm(fresh, { recursive: true, force: true })
  }
}

/** Writes into a source map where its lines begin. */
async function mark(path: string): Promise<void> {
  const map = JSON.parse(await readFile(path, 'utf8'))
  await writeFile(path, JSON.stringify({ ...map, x_marks: marksOf(map) }))
}

/** How long a build stays that the list does not name any more. A server that uses one says so every ten minutes. */
const staysMs = 3600 * 1000

/** Deletes builds that nobody has used for long, and what killed ones have left. */
async function tidy(folder: string, build: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^(new-)?own-/.test(name) || name === build) continue
    const path = join(folder, name)
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }))
    if (Date.now() - mtimeMs > staysMs) await rm(path, { recursive: true, force: true })
  }
}

/** How much younger than now a source must be: file systems tell times by ticks, and an edit may be within the same one. */
const tickMs = 100

/** The sources of a checkout as the builder meets them. */
class Sources {
  readonly #root: string
  readonly #plain: OwnFiles
  /** Each file that was read, by its path in the checkout, as it was before that. */
  readonly #read = new Map<string, OwnFile>()
  /** What a start evaluates. */
  #start: ReadonlySet<string> | undefined
  #context: PluginContext | undefined

  constructor(root: string) {
    this.#root = root
    this.#plain = new OwnFiles(`${pathToFileURL(root)}/`)
    this.#note('package.json', false)
  }

  files(): readonly OwnFile[] {
    return [...this.#read.values()]
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
        if (isModule && path !== entry)
          this.emitFile({ type: 'chunk', id, fileName: builtFile(path) })
      },
      transform: {
        filter: { code: 'import.meta' },
        handler(code, id) {
          return sources.#pathOf(id) === undefined ? undefined : withPlace(this, code, id)
        },
      },
      buildEnd() {
        sources.#context = this
      },
    }
  }

  /** Whether a start imports a source: the entry, which waits for what it imports, or one of these. */
  isOfStart(id: string): boolean {
    this.#start ??= this.#findStart()
    return this.#start.has(id)
  }

  #findStart(): Set<string> {
    const met = new Set<string>()
    const visit = (id: string): void => {
      if (met.has(id) || this.#pathOf(id) === undefined) return
      met.add(id)
      for (const one of this.#context?.getModuleInfo(id)?.importedIds ?? []) visit(one)
    }
    const first = join(this.#root, entry)
    visit(first)
    for (const one of this.#context?.getModuleInfo(first)?.dynamicallyImportedIds ?? []) visit(one)
    // The entry stands by itself: who waits for a file cannot be in it.
    met.delete(first)
    return met
  }

  /** Plain sources, and JSON, come into the build. All else is imported when it runs, by the name or the address it has. */
  async #resolve(context: PluginContext, id: string, importer: string | undefined) {
    if (importer === undefined || isBuiltin(id)) return undefined
    if (!/^[./#]/.test(id)) return { id, external: true }
    const found = await context.resolve(id, importer, { skipSelf: true })
    if (!found || this.#pathOf(found.id) !== undefined) return found
    return { id: pathToFileURL(found.id).href, external: true }
  }

  /** The path in the checkout of a file that may come into the build. */
  #pathOf(id: string): string | undefined {
    const path = relative(this.#root, id).split(sep).join('/')
    if (path === 'package.json') return path
    return this.#plain.isPlain(pathToFileURL(id).href) ? path : undefined
  }

  #note(path: string, isModule: boolean): void {
    const { size, mtimeMs } = statSync(join(this.#root, path))
    if (Date.now() - mtimeMs < tickMs) throw new Error(`${path} is being written: build later.`)
    this.#read.set(path, [path, size, mtimeMs, isModule])
  }
}

/** A part of a syntax tree, as far as it is looked at here. */
interface Part {
  readonly type?: string
  readonly start?: number
  readonly end?: number
  readonly object?: Part
  readonly property?: { readonly name?: string }
}

/** Writes into a source where it is, for the file that is made of it is elsewhere. Lines stay where they are. */
function withPlace(context: PluginContext, code: string, id: string) {
  const place: Readonly<Record<string, string>> = {
    url: JSON.stringify(pathToFileURL(id).href),
    filename: JSON.stringify(id),
    dirname: JSON.stringify(join(id, '..')),
    // What is built is imported, and never what a process is started with.
    main: 'false',
  }
  let placed = code
  const inverse = placesIn(context.parse(code, { lang: 'ts' })).toSorted((a, b) => b.at - a.at)
  for (const { name, at, end } of inverse) {
    if (name === 'resolve') continue
    if (place[name] === undefined) throw new Error(`${id} asks for import.meta.${name}.`)
    placed = placed.slice(0, at) + place[name] + placed.slice(end)
  }
  return { code: placed, map: null }
}

/** Where a syntax tree asks for a property of `import.meta`. */
function placesIn(tree: unknown): { name: string; at: number; end: number }[] {
  if (Array.isArray(tree)) return tree.flatMap(placesIn)
  if (typeof tree !== 'object' || tree === null) return []
  const { type, object, property, start = 0, end = 0 } = tree as Part
  if (type === 'MemberExpression' && object?.type === 'MetaProperty')
    return [{ name: property?.name ?? '', at: start, end }]
  return Object.values(tree).flatMap(placesIn)
}
