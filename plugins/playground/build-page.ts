import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import { codings } from './coding.ts'

/** How often this process has built: two builds at once have a folder each. */
let builds = 0

/** Builds the page in a new folder beside the served page, then replaces the served page by the new one. */
export async function buildPage(at: { sources: string; directory: string }): Promise<void> {
  const { build } = await import('vite')
  const fresh = `${at.directory.replace(/\/$/, '')}-${process.pid}-${++builds}`
  const old = `${fresh}-old`
  try {
    await build({
      configFile: false,
      logLevel: 'warn',
      root: at.sources,
      base: '/playground/',
      mode: 'production',
      // The page has React's production build, whatever NODE_ENV the server runs with.
      define: { 'process.env.NODE_ENV': '"production"' },
      oxc: { jsx: { runtime: 'automatic', development: false } },
      resolve: {
        // The library loads zod for zod's schemas, and the page has none of those.
        alias: { 'zod/v4/core': join(at.sources, 'without-zod.ts') },
        conditions: ['oracle-runtime-source', 'module', 'browser', 'production'],
      },
      build: {
        outDir: fresh,
        emptyOutDir: true,
        target: 'es2022',
        assetsInlineLimit: 0,
        // Every browser that reads ES2022 knows how to load ahead.
        modulePreload: { polyfill: false },
        // The library says 'use client' to frameworks that render on a server; this page renders in the browser alone.
        rolldownOptions: {
          checks: { bundlerTimings: false },
          // What the first view needs anyway stands in one file, because small files compress badly.
          output: { codeSplitting: { groups: [{ name: 'client', test: ofTheFirstView }] } },
          onLog: (level, log, pass) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && pass(level, log),
        },
      },
    })
    await compress(fresh)
    // Somebody may be reading the page: two renames leave no time in which a file of it is missing for long.
    await rename(at.directory, old).catch(() => {})
    await rename(fresh, at.directory)
  } finally {
    for (const folder of [fresh, old]) await rm(folder, { recursive: true, force: true })
  }
}

/** React, and the pieces of the library and of the page that the chat and other views share. */
const ofTheFirstView = new RegExp(
  [
    /node_modules\/(react|react-dom|scheduler)\//,
    /client\/core\/(client|error|events|notices|records|request|store|timing|tokens|tool-schema)\.ts/,
    /client\/core\/chat\//,
    /client\/react\/(provider|use-store|use-run|use-oracle|use-chat|use-latest|use-notices|content)\.ts/,
    /client\/view\/(fault|root)\.tsx/,
    /client\/ui\/markdown\//,
    /client\/ui\/(words|address|parts|progress|clock|copy|seconds|hooks)\.tsx?/,
    /client\/ui\/languages\/en/,
    /page\/(route|host|oracle|words|traffic|brought)\.ts/,
  ]
    .map(({ source }) => source)
    .join('|'),
)

const ways = { br: promisify(brotliCompress), gzip: promisify(gzip) } as const
/** A smaller file costs a page no time that a copy would save. */
const fewestBytes = 1024

/** Lays compressed copies beside the files of a folder, where they are smaller. */
async function compress(folder: string): Promise<void> {
  const files = await readdir(folder, { recursive: true })
  for (const file of files) {
    if (!/\.(js|css|html|svg)$/.test(file)) continue
    const source = await readFile(join(folder, file))
    if (source.length < fewestBytes) continue
    for (const way of ['br', 'gzip'] as const) {
      const copy = await ways[way](source)
      if (copy.length < source.length) await writeFile(join(folder, file + codings[way]), copy)
    }
  }
}
