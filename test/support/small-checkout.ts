import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

/** The checkout of these tests. */
export const here = resolve(import.meta.dirname, '../..')
export const temporary = mkdtempSync(join(tmpdir(), 'oracle-own-'))
export const removeCheckouts = () => rmSync(temporary, { recursive: true, force: true })

/** Long before any build, which takes no source that is just being written. */
const writtenBefore = new Date(Date.now() - 60_000)

let count = 0
/** A checkout of few files; `write` adds one that was written a while ago. */
export function newCheckout(sources: Readonly<Record<string, string>>) {
  const root = join(temporary, `checkout-${count++}`)
  const write = (path: string, text: string, at = writtenBefore) => {
    mkdirSync(dirname(join(root, path)), { recursive: true })
    writeFileSync(join(root, path), text)
    utimesSync(join(root, path), at, at)
  }
  write('package.json', manifest)
  for (const [path, text] of Object.entries(sources)) write(path, text)
  return { root, write, folder: join(root, 'node_modules/.cache/own') }
}

export const manifest = JSON.stringify({
  name: 'small-oracle',
  type: 'module',
  imports: { '#core': './core/index.ts' },
  exports: './core/index.ts',
})

export interface Told {
  readonly said: any // any: whatever the program returned
  /** The files that were imported, by their paths in the checkout, and those that were built. */
  readonly loaded: readonly string[]
}

/** Runs a program in a process that has the checkout's files built, or not, and reads the JSON of what it returns. */
export async function told(
  root: string,
  folder: string | undefined,
  program: string,
): Promise<Told> {
  const file = join(root, 'program.mjs')
  const at = (path: string) => JSON.stringify(pathToFileURL(join(here, path)).href)
  writeFileSync(
    file,
    `import { registerHooks } from 'node:module'
    const loaded = []
    registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
    const { findOwnFiles } = await import(${at('prebuilt/own-files.ts')})
    findOwnFiles(${JSON.stringify(`${pathToFileURL(root)}/`)})
    const { useOwn } = await import(${at('prebuilt/own-use.ts')})
    if (${folder !== undefined}) useOwn(${JSON.stringify(folder)}, ${JSON.stringify(root)})
    const said = await (async () => { ${program} })()
    console.log(JSON.stringify({ said, loaded }))`,
  )
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--conditions=oracle-runtime-source', file],
    {
      env: { PATH: process.env.PATH },
      maxBuffer: 2 ** 26,
    },
  )
  const { said, loaded } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  const inside = `${pathToFileURL(root)}/`
  return {
    said,
    loaded: (loaded as string[])
      .filter((url) => url.startsWith(inside))
      .map((url) => url.slice(inside.length)),
  }
}
