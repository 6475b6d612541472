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
  'oracle-runtime-client/view',
] as const

/** Where the view of a plugin's folder begins; undefined where it has none. */
export const entryOfView = (folder: string): string | undefined =>
  ['view.tsx', 'view.ts', 'view/index.tsx', 'view/index.ts']
    .map((name) => join(folder, name))
    .find((at) => existsSync(at))

/** What a plugin shows within a chat, where it is a module of its own: who only chats fetches no whole view. */
const entryOfWithin = (folder: string): string | undefined =>
  ['within.tsx', 'within.ts'].map((name) => join(folder, name)).find((at) => existsSync(at))

/**
 * Builds the view of a plugin's folder into one file, and what it shows within a chat into another, without what the page has.
 * Returns the files.
 */
export async function buildView(
  folder: string,
  directory = join(folder, 'built'),
): Promise<string[]> {
  const entry = entryOfView(folder)
  if (!entry)
    throw new UsageError(
      `${folder} has no view.tsx and no view/index.tsx: name the folder of a plugin that has one, as plugins/toll.`,
    )
  const files = [await buildFile(folder, entry, directory, 'view.js')]
  const within = entryOfWithin(folder)
  if (within) files.push(await buildFile(folder, within, directory, 'within.js'))
  return files
}

async function buildFile(
  folder: string,
  entry: string,
  directory: string,
  name: 'view.js' | 'within.js',
): Promise<string> {
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
      emptyOutDir: name === 'view.js',
      copyPublicDir: false,
      target: 'es2022',
      // The page's colours are made by light-dark(), which only these browsers and newer ones have.
      cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
      minify: true,
      lib: { entry, formats: ['es'], fileName: () => name },
      // Vite leaves the spaces in a library; a view is fetched by a browser as it is.
      rolldownOptions: { output: { codeSplitting: false, minify: true } },
    },
  })
  return join(directory, name)
}
