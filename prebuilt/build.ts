import { readFileSync, statSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { isBuiltin } from 'node:module'
import { join, relative, sep } from 'node:path'
import { rolldown, type OutputChunk, type Plugin } from 'rolldown'
import { listFile, listFormat, outsidePrefix, type PrebuiltList } from './list.ts'
import { foldersOf, type PrebuiltGroups } from './packages.ts'
import { toDisk } from './to-disk.ts'

/** The conditions by which Node chooses a file of a package for an `import`. */
const conditions = ['node', 'import', 'module-sync', 'default']

/**
 * Makes few large files of the many small ones of some packages, and a list for each group. Files that other servers may
 * still import stay in the folder for a day. Every entry of a package gets a file, and what entries share stands in files
 * that they share: whoever imports another entry of a package gets the same copy of it.
 */
export async function buildPrebuilt(folder: string, groups: PrebuiltGroups): Promise<void> {
  const folders = foldersOf(groups)
  if (!folders) throw new Error('One of the packages is not installed: run npm ci.')
  const entries = new Map([...folders].map(([name, home]) => [name, entriesOf(home)]))
  const bundle = await rolldown({
    input: Object.fromEntries(
      [...entries.values()].flat().map((path, index) => [`entry-${index}`, path]),
    ),
    platform: 'node',
    // Nothing is left out: what a module does when it is imported, it does here too.
    treeshake: false,
    resolve: { conditionNames: conditions },
    plugins: [keepOutside(folders, new Set([...entries.values()].flat()))],
    logLevel: 'silent',
  })
  // Inside, so that what a killed build leaves behind goes with the files of no use.
  const fresh = join(folder, `new-${process.pid}`)
  try {
    await mkdir(fresh, { recursive: true })
    const { output } = await bundle.write({
      dir: fresh,
      format: 'esm',
      entryFileNames: 'entry-[hash].mjs',
      chunkFileNames: 'shared-[hash].mjs',
      comments: { legal: true, jsdoc: false, annotation: false },
      // A process keeps the text of what it imports, in two bytes a sign where one of them is not ASCII. Names stay: what a
      // package says of itself and of its faults is the same.
      minify: {
        compress: false,
        mangle: false,
        codegen: { removeWhitespace: true, asciiOnly: true },
      },
    })
    const chunks = output.filter((each) => each.type === 'chunk')
    for (const [group, packages] of Object.entries(groups)) {
      const list: PrebuiltList = {
        format: listFormat,
        packages: packages.map((one) => ({ ...one, ...recordOf(folders.get(one.name), chunks) })),
      }
      await writeFile(join(fresh, listFile(group)), JSON.stringify(list))
    }
    await toDisk(fresh)
    await moveInto(folder, fresh)
  } finally {
    await bundle.close()
    await rm(fresh, { recursive: true, force: true })
  }
}

/** How long files stay that no list names any more: a server that runs may import them with its first turn. */
const staysMs = 24 * 3600 * 1000

/** Moves new files into a folder, the lists last, and deletes what has been of no use for long. Names say the content. */
async function moveInto(folder: string, fresh: string): Promise<void> {
  const isList = (name: string) => name.endsWith('.json')
  const names = await readdir(fresh)
  for (const name of [...names.filter((one) => !isList(one)), ...names.filter(isList)])
    await rename(join(fresh, name), join(folder, name))
  for (const name of await readdir(folder)) {
    const { mtimeMs } = await stat(join(folder, name))
    if (!names.includes(name) && Date.now() - mtimeMs > staysMs)
      await rm(join(folder, name), { recursive: true, force: true })
  }
}

/** The entries and the files of a package that have become chunks, by their paths in the package. */
function recordOf(home: string | undefined, chunks: readonly OutputChunk[]) {
  if (home === undefined) throw new Error('A package without a folder was prebuilt.')
  const inside = (path: string) => (isIn(home, path) ? [relative(home, path)] : [])
  const paths = new Set(chunks.flatMap(({ moduleIds }) => moduleIds.flatMap(inside)))
  return {
    entries: chunks.flatMap(({ isEntry, facadeModuleId, fileName }) =>
      isEntry && facadeModuleId
        ? inside(facadeModuleId).map((path) => [path, fileName] as const)
        : [],
    ),
    files: ['package.json', ...paths].map((path) => {
      const { size, mtimeMs } = statSync(join(home, path))
      return [path, size, mtimeMs] as const
    }),
  }
}

/** Lets an import that leaves the packages be resolved when it runs, as an import of the package that contains it. */
function keepOutside(folders: ReadonlyMap<string, string>, entries: ReadonlySet<string>): Plugin {
  return {
    name: 'keep-outside',
    async resolveId(id, importer) {
      if (importer === undefined || id.startsWith('.') || isBuiltin(id)) return undefined
      const [owner, home] = [...folders].find(([, one]) => isIn(one, importer)) ?? []
      if (home === undefined) throw new Error(`${importer} belongs to no package of the list.`)
      const found = await this.resolve(id, importer, { skipSelf: true })
      if (found && (entries.has(found.id) || isIn(home, found.id))) return found
      return { id: `${outsidePrefix}${owner}!${id}`, external: true }
    },
  }
}

/** Whether a file belongs to the package in `home`, and not to one that is installed inside of it. */
function isIn(home: string, path: string): boolean {
  const inside = relative(home, path).split(sep)
  return inside[0] !== '..' && !inside.includes('node_modules')
}

/** What a package.json may say of an entry. */
type Exported = string | null | { readonly [condition: string]: Exported }

/**
 * The files that one may import from a package, as far as they are ES modules. Names with a `*` are left out: the runtime
 * imports none, and zod's locales would become fifty files again.
 */
function entriesOf(home: string): string[] {
  const { type, exports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as {
    readonly type?: string
    readonly exports: Readonly<Record<string, Exported>>
  }
  const files = Object.entries(exports).flatMap(([name, said]) =>
    name.includes('*') ? [] : (fileOf(said) ?? []),
  )
  const isModule = (file: string) =>
    file.endsWith('.mjs') || (file.endsWith('.js') && type === 'module')
  return [...new Set(files.filter(isModule).map((file) => join(home, file)))]
}

/** The file that Node chooses: the first condition that holds, at every depth. */
function fileOf(said: Exported): string | undefined {
  if (said === null || typeof said === 'string') return said ?? undefined
  for (const [condition, inner] of Object.entries(said))
    if (conditions.includes(condition)) {
      const file = fileOf(inner)
      if (file !== undefined) return file
    }
  return undefined
}
