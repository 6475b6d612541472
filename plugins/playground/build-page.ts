import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Builds the page beside the one that is served, then puts it in its place. */
export async function buildPage(at: { sources: string; directory: string }): Promise<void> {
  const { build } = await import('vite')
  const fresh = `${at.directory.replace(/\/$/, '')}-${process.pid}`
  try {
    await build({
      configFile: false,
      logLevel: 'warn',
      root: at.sources,
      base: '/playground/',
      mode: 'production',
      // Whatever the server's own NODE_ENV is, the page has React as it is published.
      define: { 'process.env.NODE_ENV': '"production"' },
      oxc: { jsx: { runtime: 'automatic', development: false } },
      resolve: {
        // The library would load zod for schemas of zod's, and the page has none.
        alias: { 'zod/v4/core': join(at.sources, 'without-zod.ts') },
        conditions: ['oracle-runtime-source', 'module', 'browser', 'production'],
      },
      build: {
        outDir: fresh,
        emptyOutDir: true,
        target: 'es2022',
        assetsInlineLimit: 0,
        // The library says 'use client' to frameworks that render on the server; here all of it is.
        rolldownOptions: {
          onLog: (level, log, pass) => log.code !== 'MODULE_LEVEL_DIRECTIVE' && pass(level, log),
        },
      },
    })
    await rm(at.directory, { recursive: true, force: true })
    await rename(fresh, at.directory)
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
}
