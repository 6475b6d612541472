import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build, type Rolldown } from 'vite'

const root = join(import.meta.dirname, '../..')

/** The bytes that an app downloads for an entry of the client, without the peer dependencies, which the app brings. */
export interface EntrySize {
  readonly entry: string
  readonly minified: number
  readonly gzip: number
  /** The gzipped bytes that the app downloads only when it needs them. */
  readonly later: number
  /** Of these, what serves no chat: contracts, payments, memory, and what a messaging server is asked. */
  readonly seldom: number
  /** Of these, what keeps tokens over a reload. */
  readonly tokens: number
}

/** The core's limit, in bytes of gzip. */
export const coreBudget = 9 * 1024

/** The limit of what `/notices` adds to an app that has the core, with what the entry fetches later. */
export const noticesBudget = 3 * 1024

/** The limit of what `/live-agent` adds to an app that has the core, with what a call fetches later. */
export const liveAgentBudget = 8 * 1024

/** The limits of what a chat fetches later, of what keeps its tokens, and of what serves no chat, in bytes of gzip. */
export const laterBudget = { chat: 10 * 1024, tokens: 1024, seldom: 5.5 * 1024 }

/** The chunks that serve no chat. */
const seldom = /^(contract|memory-engine|oracle-room|paying|messaging-server)$/

/** Bundles an entry as an app's build does that imports everything from the entry. */
export async function sizeOf(entry: string): Promise<EntrySize> {
  const chunks = await bundle([entry])
  const now = atOnce(chunks, entry)
  const later = chunks.filter((chunk) => !now.has(chunk))
  return {
    entry,
    minified: sum(now, (code) => Buffer.byteLength(code)),
    gzip: sum(now, gzip),
    later: sum(later, gzip),
    seldom: sum(
      later.filter(({ name }) => seldom.test(name)),
      gzip,
    ),
    tokens: sum(
      later.filter(({ name }) => name === 'kept-tokens'),
      gzip,
    ),
  }
}

/** The bytes of gzip that an entry adds to an app that has the core. */
export async function addedBy(entry: string): Promise<number> {
  const both = sum(await bundle(['index', entry]), gzip)
  return both - sum(await bundle(['index']), gzip)
}

/** The bytes of gzip that `/live-agent` adds to an app that has the core: its hook, and what is fetched at the first call. */
export async function liveAgentSize(): Promise<number> {
  const chunks = await bundle(['index', 'live-agent'])
  return sum(
    chunks.filter(({ name }) => /^live-/.test(name)),
    gzip,
  )
}

type Chunk = Extract<Rolldown.RolldownOutput['output'][number], { type: 'chunk' }>

async function bundle(entries: readonly string[]): Promise<Chunk[]> {
  const [built] = (await build({
    configFile: false,
    logLevel: 'silent',
    root,
    resolve: { conditions: ['oracle-runtime-source', 'module', 'browser'] },
    build: {
      write: false,
      target: 'es2022',
      lib: {
        entry: Object.fromEntries(
          entries.map((name) => [name, join(root, 'client', `${name}.ts`)]),
        ),
        formats: ['es'],
      },
      rolldownOptions: {
        external: /^(react|react-dom|zod)(\/|$)/,
        // In an app this chunk follows the app's own entry, so it may export more, for the chunks that are loaded later.
        preserveEntrySignatures: 'allow-extension',
        output: { minify: true },
      },
    },
  })) as Rolldown.RolldownOutput[]
  return built!.output.filter((part) => part.type === 'chunk')
}

/** The chunks that load at once: the entry itself, and the chunks that it imports statically. */
function atOnce(chunks: readonly Chunk[], entry: string): Set<Chunk> {
  const byName = new Map(chunks.map((chunk) => [chunk.fileName, chunk]))
  const now = new Set(chunks.filter(({ isEntry, name }) => isEntry && name === entry))
  for (const chunk of now)
    for (const name of chunk.imports) if (byName.has(name)) now.add(byName.get(name)!)
  return now
}

const gzip = (text: string) => gzipSync(text, { level: 9 }).length
const sum = (list: Iterable<{ code: string }>, size: (code: string) => number) =>
  [...list].reduce((total, { code }) => total + size(code), 0)

if (import.meta.main)
  console.table(
    await Promise.all(['index', 'live-agent', 'notices', 'payments', 'wallet'].map(sizeOf)).then(
      (sizes) => Object.fromEntries(sizes.map(({ entry, ...size }) => [entry, size])),
    ),
  )
