import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Builds the page in a new folder beside the served page, then replaces the served page by the new one. */
export async function buildPage(at: { sources: string; directory: string }): Promise<void> {
  const { build } = await import('vite')
  const fresh = `${at.directory.replace(/\/$/, '')}-${process.pid}`
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
        // The library says 'use client' to frameworks that render on a server; this page renders in the browser alone.
        rolldownOptions: {
          checks: { bundlerTimings: false },
          onLog: (level, log, pass) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && pass(level, log),
        },
      },
    })
    // Somebody may be reading the page: two renames leave no time in which a file of it is missing for long.
    await rename(at.directory, old).catch(() => {})
    await rename(fresh, at.directory)
  } finally {
    for (const folder of [fresh, old]) await rm(folder, { recursive: true, force: true })
  }
}
