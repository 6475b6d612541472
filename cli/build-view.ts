import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { UsageError } from './command.ts'

/** What a view takes from the page that shows it, and does not bring along. */
export const modulesOfPage = [
  'react',
  'react/jsx-runtime',
  'react-dom/client',
  'oracle-runtime-client',
  'oracle-runtime-client/live-agent',
  'oracle-runtime-client/memory',
  'oracle-runtime-client/payments',
  'oracle-runtime-client/notices',
] as const

/** Builds `view.tsx` or `view.ts` of a plugin's folder into one file, without what the page has. Returns the file. */
export async function buildView(
  folder: string,
  directory = join(folder, 'built'),
): Promise<string> {
  const entry = ['view.tsx', 'view.ts']
    .map((name) => join(folder, name))
    .find((at) => existsSync(at))
  if (!entry)
    throw new UsageError(
      `${folder} has no view.tsx: name the folder of a plugin that has one, as plugins/toll.`,
    )
  const { build } = await import('vite').catch((cause: unknown) => {
    throw new UsageError('Building a view needs Vite: npm install --save-dev vite', { cause })
  })
  await build({
    configFile: false,
    logLevel: 'warn',
    root: folder,
    define: { 'process.env.NODE_ENV': '"production"' },
    oxc: { jsx: { runtime: 'automatic', development: false } },
    plugins: [
      {
        name: 'of-the-page',
        enforce: 'pre',
        resolveId: (id) => (modulesOfPage.some((name) => name === id) ? `\0page:${id}` : undefined),
        load: (id) =>
          id.startsWith('\0page:')
            ? `module.exports = globalThis[Symbol.for('oracle-runtime.page')]['${id.slice(6)}']`
            : undefined,
      },
    ],
    build: {
      outDir: directory,
      emptyOutDir: true,
      copyPublicDir: false,
      target: 'es2022',
      minify: true,
      lib: { entry, formats: ['es'], fileName: () => 'view.js' },
      rolldownOptions: { output: { codeSplitting: false } },
    },
  })
  return join(directory, 'view.js')
}
