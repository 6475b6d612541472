import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { markdownTable } from '../cli/table.ts'
import { en } from '../client/ui/languages/en.ts'

const root = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** What `oracle-runtime-client/ui` exports that is there when the page runs, with the file of each. */
export function exported(): (readonly [name: string, file: string])[] {
  const lists = read('client/ui.ts').matchAll(/^export \{([^}]+)\} from '\.\/([^']+)'/gm)
  return [...lists].flatMap(([, names = '', file]) =>
    names
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && !name.startsWith('type '))
      .map((name) => [name, `client/${file}`] as const),
  )
}

/** The doc comment of an export. */
function saying(name: string, file: string): string {
  const source = read(file)
  const at = source.search(new RegExp(`^export (?:function|const) ${name}\\b`, 'm'))
  const comment = /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*$/.exec(source.slice(0, at))?.[1]
  if (at < 0 || comment === undefined) throw new Error(`${file} says nothing of ${name}`)
  return comment
    .replace(/^\s*\* ?/gm, '')
    .replaceAll('\n', ' ')
    .trim()
}

const sources = (): string =>
  readdirSync(join(root, 'client/ui'), { recursive: true, encoding: 'utf8' })
    .filter((path) => /\.tsx?$/.test(path))
    .map((path) => read(`client/ui/${path}`))
    .join('\n')

/** The classes that the kit gives its elements. */
export const classes = (): string[] =>
  [
    ...new Set(
      [...sources().matchAll(/className=(?:"([^"]+)"|\{([^}]+)\})/g)].flatMap(
        ([, plain, made]) => (plain ?? made ?? '').match(/\boc-[a-z-]*[a-z]/g) ?? [],
      ),
    ),
  ].sort()

/** The variables of its sheet. */
export const variables = (): string[] => [
  ...new Set(
    read('client/ui/style.css')
      .match(/^\s+--oc-[a-z-]+(?=:)/gm)
      ?.map((one) => one.trim()),
  ),
]

const rows = (isHook: boolean) =>
  exported()
    .filter(([name]) => /^use[A-Z]/.test(name) === isHook)
    .map(([name, file]) => [`\`${name}\``, saying(name, file)])

/** Names, some on a line. */
const listed = (names: readonly string[]): string =>
  names
    .map((name, nth) => `\`${name}\`,${nth % 6 === 5 ? '\n' : ' '}`)
    .join('')
    .trim()
    .replace(/,$/, '.')

/** The generated parts of `docs/kit.md`. */
export const kit: Record<string, () => string> = {
  parts: () => markdownTable(['part', 'what it is'], rows(false)),
  hooks: () => markdownTable(['hook', 'what it gives'], rows(true)),
  classes: () => listed(classes()),
  variables: () => listed(variables()),
  words: () =>
    markdownTable(
      ['word', 'in English'],
      Object.entries(en).map(([name, word]) => [
        `\`${name}\``,
        typeof word === 'string' ? word : `a function: ${word('a', 2)}`,
      ]),
    ),
}
