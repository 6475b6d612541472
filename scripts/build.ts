import { execFileSync } from 'node:child_process'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

// Node runs no TypeScript inside node_modules, so the package contains built JavaScript and types.
const root = dirname(dirname(fileURLToPath(import.meta.url)))
/** Where the package is built. It comes to its place as a whole, so whoever reads the one of before is not disturbed for long. */
const dist = join(root, `.dist-${process.pid}`)

/** How a file says where it is. */
const ownPlace = 'import.meta.url'

const compiler = join(root, 'node_modules/typescript/bin/tsc')
const project = join(root, 'tsconfig.build.json')
execFileSync(process.execPath, [compiler, '-p', project, '--outDir', dist], { stdio: 'inherit' })
await bundle()

// The package contains the built page of the playground.
const { buildPage } = await import('../plugins/playground/build-page.ts')
await buildPage({
  sources: join(root, 'plugins/playground/page'),
  directory: join(dist, 'plugins/playground/built'),
})

// And the views that plugins bring to it.
const { buildView, entryOfView } = await import('../cli/build-view.ts')
for (const name of await readdir(join(root, 'plugins')))
  if (entryOfView(join(root, 'plugins', name)))
    await buildView(join(root, 'plugins', name), join(dist, 'plugins', name, 'built'))

// Types keep their `#core` imports, and files their places, which are resolved by the package.json of dist.
const { name, version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
const scope = {
  name: `${name}-dist`,
  version,
  private: true,
  type: 'module',
  imports: {
    '#core': './index.js',
    '#core/testing': './testing.js',
    '#core/models': './core/models/index.js',
    '#core/webhooks': './core/webhooks/index.js',
    '#place/*': './*',
  },
}
await writeFile(join(dist, 'package.json'), `${JSON.stringify(scope, null, 2)}\n`)

const place = join(root, 'dist')
const old = `${dist}-old`
await rename(place, old).catch(() => undefined) // there is none the first time
await rename(dist, place)
await rm(old, { recursive: true, force: true })

/** The sources that keep a file of their own in the package: what `exports` names, and what is started by its path. */
async function entries(): Promise<string[]> {
  const plugins = (await readdir(join(root, 'plugins'), { withFileTypes: true }))
    .filter((one) => one.isDirectory())
    .map((one) => `plugins/${one.name}/index`)
  const doors = ['index', 'testing', 'core/models/index', 'core/webhooks/index']
  return [...doors, ...plugins, 'plugins/calls/media/worker', 'cli/main', 'cli/dev-child']
}

/**
 * Writes the JavaScript of the package as few files: an app that starts would ask the disk for each of four hundred. What
 * the entry of the package imports is one file, and what is imported later stays apart.
 */
async function bundle(): Promise<void> {
  const build = await rolldown({
    cwd: root,
    input: Object.fromEntries((await entries()).map((path) => [path, `${path}.ts`])),
    platform: 'node',
    // Packages stay imports, so an app shares them with its own code.
    external: (id, _, isResolved) => !isResolved && !/^[./#]/.test(id),
    treeshake: false,
    plugins: [
      { name: 'keep-places', transform: { filter: { code: ownPlace }, handler: keepPlace } },
    ],
  })
  await build.write({
    dir: dist,
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name].js',
    comments: { legal: true, jsdoc: false, annotation: false },
    // `node --enable-source-maps` names the line of the source; the sources themselves are in the repository.
    sourcemap: true,
    sourcemapExcludeSources: true,
    codeSplitting: { groups: [{ name: 'runtime', test: (id) => id === join(root, 'index.ts') }] },
  })
  await build.close()
}

/** A file that looks for others beside itself finds them by its own place, whichever file its code has gone to. */
function keepPlace(code: string, id: string) {
  const path = relative(root, id).split(sep).join('/').replace(/\.ts$/, '.js')
  // Every line stays where it was, so the map of before holds.
  return { code: code.replaceAll(ownPlace, `import.meta.resolve('#place/${path}')`), map: null }
}
