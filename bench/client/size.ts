import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'

const root = join(import.meta.dirname, '../..')

/** What an app downloads for an entry of the client. Its peers are the app's own. */
export interface EntrySize {
  readonly entry: string
  readonly minified: number
  readonly gzip: number
  /** What is fetched only when it is needed, gzipped. */
  readonly later: number
}

/** The core's limit, in bytes of gzip. */
export const coreBudget = 9 * 1024

/** Bundles an entry as an app's build does, for the import of everything in it. */
export async function sizeOf(entry: string): Promise<EntrySize> {
  const [built] = (await build({
    configFile: false,
    logLevel: 'silent',
    root,
    resolve: { conditions: ['oracle-runtime-source', 'module', 'browser'] },
    build: {
      write: false,
      target: 'es2022',
      lib: { entry: join(root, 'client', `${entry}.ts`), formats: ['es'] },
      rolldownOptions: {
        external: /^(react|react-dom|zod)(\/|$)/,
        // An app's own entry stands before this one: what is fetched later finds here what it shares.
        preserveEntrySignatures: 'allow-extension',
        output: { minify: true },
      },
    },
  })) as Rolldown.RolldownOutput[]
  const chunks = built!.output.filter((part) => part.type === 'chunk')
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]))
  // What the entry needs at once: itself, and what it imports statically.
  const now = new Set(chunks.filter(({ isEntry }) => isEntry))
  for (const chunk of now)
    for (const name of chunk.imports) if (byName.has(name)) now.add(byName.get(name)!)
  const gzip = (text: string) => gzipSync(text, { level: 9 }).length
  const sum = (list: Iterable<{ code: string }>, size: (code: string) => number) =>
    [...list].reduce((total, { code }) => total + size(code), 0)
  return {
    entry,
    minified: sum(now, (code) => Buffer.byteLength(code)),
    gzip: sum(now, gzip),
    later: sum(
      chunks.filter((chunk) => !now.has(chunk)),
      gzip,
    ),
  }
}

if (import.meta.main)
  console.table(
    await Promise.all(['index', 'live-agent', 'wallet'].map(sizeOf)).then((sizes) =>
      Object.fromEntries(sizes.map(({ entry, ...size }) => [entry, size])),
    ),
  )
