import { globSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/** The pages that users of the runtime read. */
export const pages: readonly string[] = [
  'README.md',
  ...globSync(['docs/*.md', 'plugins/*/README.md', 'examples/*/README.md'], { cwd: root }).sort(),
]

/** A fenced block of a page. */
export interface Block {
  readonly page: string
  readonly line: number
  /** What the fence says: `sh`, `ts`, `json`. */
  readonly kind: string
  /** The comment right before it, if there is one: `file: …`, `include: …`, `server: …`, `not run: …`. */
  readonly mark: string | undefined
  readonly code: string
}

/** The blocks of a page, in order. */
export function blocksOf(page: string, text = readFileSync(join(root, page), 'utf8')): Block[] {
  const blocks = text.matchAll(/(?:^<!-- ([^\n]+?) -->\n\n?)?^( *)```(\w*)[^\n]*\n(.*?)^\2```/gms)
  return [...blocks].map(([whole, mark, , kind = '', code = '']) => ({
    page,
    line: text.slice(0, text.indexOf(whole)).split('\n').length,
    kind,
    mark,
    code,
  }))
}

/** Why no test runs a block, where its page says so. */
export const notRun = ({ mark }: Block): string | undefined =>
  /^not run: (.+)/.exec(mark ?? '')?.[1]
