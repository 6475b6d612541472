import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { rolldown } from 'rolldown'
import { listFile, listFormat, type OwnList } from './own-list.ts'
import { OwnSources } from './own-sources.ts'
import { marksOf } from './source-map.ts'
import { toDisk } from './to-disk.ts'

/**
 * Makes JavaScript of the sources of a checkout that its server imports: one file of all that a start imports, and one of each
 * that is imported later. Every source has a file that exports what it exports, so whoever imports a source by its address
 * gets the same copy of it as all others.
 */
export async function buildOwn(folder: string, root: string): Promise<void> {
  const sources = new OwnSources(root)
  const bundle = await rolldown({
    cwd: root,
    input: sources.entry,
    platform: 'node',
    // Nothing is left out and nothing written anew but types: that is how Node reads the sources.
    treeshake: false,
    tsconfig: false,
    transform: { target: 'esnext', typescript: { onlyRemoveTypeImports: true } },
    resolve: { conditionNames: ['oracle-runtime-source', 'node', 'import', 'default'] },
    plugins: [sources.plugin()],
    logLevel: 'silent',
  })
  const build = `own-${randomUUID()}`
  // Another name until it is whole, so that nobody takes what a killed build leaves behind for a build.
  const fresh = join(folder, `new-${build}`)
  try {
    await mkdir(fresh, { recursive: true })
    const { output } = await bundle.write({
      dir: fresh,
      format: 'esm',
      entryFileNames: '[name].mjs',
      chunkFileNames: ({ moduleIds: [only, ...others] }) =>
        `shared/${others.length === 0 ? sources.nameOf(only) : '[name]'}-[hash].mjs`,
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
      codeSplitting: { groups: [{ name: 'start', test: (id) => sources.isTogether(id) }] },
    })
    for (const { fileName } of output)
      if (fileName.endsWith('.map')) await mark(join(fresh, fileName))
    await toDisk(fresh)
    const list: OwnList = { format: listFormat, root, build, files: sources.files() }
    const listed = `new-${build}.json`
    await writeFile(join(folder, listed), JSON.stringify(list))
    await rename(fresh, join(folder, build))
    await prove(folder, root, listed, sources.ofStart())
    await rename(join(folder, listed), join(folder, listFile))
    await tidy(folder, build)
  } catch (error) {
    for (const name of [build, `new-${build}`, `new-${build}.json`])
      await rm(join(folder, name), { recursive: true, force: true })
    throw error
  } finally {
    await bundle.close()
  }
}

/** How long the first import of a build may take. */
const longestMs = 60_000

/**
 * Imports what a start imports in a process of its own before anybody else does. What cannot be imported is no build, whatever
 * the sources or a package did that files of their own allow; and the next start finds in Node's cache what was compiled here.
 */
async function prove(folder: string, root: string, list: string, ids: readonly string[]) {
  const given = [folder, root, list].map((each) => JSON.stringify(each)).join(', ')
  const program = `const { enableCompileCache } = await import('node:module')
    enableCompileCache()
    const { useOwn } = await import(${JSON.stringify(new URL('own-use.ts', import.meta.url))})
    useOwn(${given})
    for (const url of ${JSON.stringify(ids.map((id) => pathToFileURL(id).href))}) await import(url)
    process.exit()`
  const node = ['--conditions=oracle-runtime-source', '--input-type=module', '-e', program]
  await promisify(execFile)(process.execPath, node, { cwd: root, timeout: longestMs })
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
