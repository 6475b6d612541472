import { globSync, readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import {
  isAsExpression,
  isClassDeclaration,
  isFunctionDeclaration,
  isFunctionLikeDeclaration,
  isIdentifier,
  isInterfaceDeclaration,
  isNonNullExpression,
  isPropertyDeclaration,
  isTypeAliasDeclaration,
  isTypeReferenceNode,
  isVariableDeclaration,
  isVariableStatement,
  SyntaxKind,
  type Node,
  type SourceFile,
} from 'typescript/unstable/ast'
import { withBlocks } from './docs.ts'
import { Sources } from './sources.ts'
import { markdownTable } from '../cli/table.ts'

// npm run measure: counts the places where the kernel is longer, less strictly typed or less documented than it should
// be, the long functions and files of plugins and the client, and the long lines of the whole repository.

/** The limits for the lines of a file and a function, the files of a room (a folder), and the characters of a line. */
const longestFile = 400
const longestFunction = 80
const fullestRoom = 15
const longestLine = 140
/** How many places of each figure the terminal shows. */
const mostShown = 8

/** One figure and the places that it counts, the worst first. */
export interface Figure {
  readonly name: string
  readonly value: number
  readonly places: readonly string[]
}

/** A place in the sources, with the size by which places are sorted. */
interface Place {
  readonly size: number
  readonly at: string
}

/** The figures of the kernel, counted in the compiler's syntax trees. */
export function measures(): Figure[] {
  using sources = new Sources()
  const files = [...sources.below('core')].filter(({ path }) => !path.endsWith('.test.ts'))
  const found = emptyFound()
  const rooms = new Map<string, number>()
  const owners = new Map<string, Set<string>>()
  for (const { path, source } of files) {
    rooms.set(dirname(path), (rooms.get(dirname(path)) ?? 0) + 1)
    readFileOf(path, source, found)
    for (const { name } of exportsOf(source))
      owners.set(name, (owners.get(name) ?? new Set()).add(path))
  }
  const lengths = files.map(({ path, source }) => ({ size: lineOf(source, source.end), at: path }))
  const twice = [...owners].filter(([, paths]) => paths.size > 1)
  return [
    counted('uses of `any`', found.any),
    counted('casts (`as`, but for `as const`)', found.casts),
    counted('`!` for what may be undefined', found.bangs),
    over(`files over ${longestFile} lines`, longestFile, lengths),
    over(`functions over ${longestFunction} lines`, longestFunction, found.functions),
    over(
      `rooms over ${fullestRoom} files`,
      fullestRoom,
      [...rooms].map(([at, size]) => ({ at, size })),
    ),
    counted('exported things without a doc comment', found.bare),
    counted(
      'exported names that exist twice',
      twice.map(([name, paths]) => `${name}: ${[...paths].join(', ')}`),
    ),
    ...measuresAround(sources),
  ]
}

/** The figures of what is built on the kernel, and of every text of the repository. */
function measuresAround(sources: Sources): Figure[] {
  using browser = new Sources('tsconfig.browser.json')
  const built = [...sources.below('plugins'), ...browser.below('client')].filter(
    ({ path }) => !/\.test\.tsx?$|\/dist\//.test(path),
  )
  const found = emptyFound()
  for (const { path, source } of built) readFileOf(path, source, found)
  const lengths = built.map(({ path, source }) => ({ size: lineOf(source, source.end), at: path }))
  return [
    over(`plugins and client: files over ${longestFile} lines`, longestFile, lengths),
    over(
      `plugins and client: functions over ${longestFunction} lines`,
      longestFunction,
      found.functions,
    ),
    counted(`whole repository: lines over ${longestLine} characters`, longLines()),
  ]
}

/** The lines of code and prose that are too long; rows of tables in Markdown cannot be broken, and are not counted. */
function longLines(): string[] {
  const skipped = /(^|\/)(node_modules|dist|built[^/]*)(\/|$)|^\./
  const paths = globSync('**/*.{ts,tsx,md,mjs,js,css,html}', {
    exclude: (path) => skipped.test(path),
  }).filter((path) => !skipped.test(path))
  return paths.sort().flatMap((path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((line, i) => {
        const isRow = path.endsWith('.md') && line.startsWith('|')
        return line.length > longestLine && !isRow ? [`${path}:${i + 1}`] : []
      }),
  )
}

const emptyFound = (): Found => ({ any: [], casts: [], bangs: [], functions: [], bare: [] })

interface Found {
  readonly any: string[]
  readonly casts: string[]
  readonly bangs: string[]
  readonly functions: Place[]
  readonly bare: string[]
}

function readFileOf(path: string, source: SourceFile, found: Found): void {
  const at = (node: Node) => `${path}:${lineOf(source, node.getStart(source))}`
  const visit = (node: Node): void => {
    if (node.kind === SyntaxKind.AnyKeyword) found.any.push(at(node))
    if (isAsExpression(node) && !isConst(node.type)) found.casts.push(at(node))
    if (isNonNullExpression(node) || isSaidToBeThere(node)) found.bangs.push(at(node))
    if (isFunctionLikeDeclaration(node) && 'body' in node && node.body)
      found.functions.push({
        size: lineOf(source, node.end) - lineOf(source, node.getStart(source)) + 1,
        at: `${at(node)} ${nameOf(node)}`,
      })
    node.forEachChild(visit)
  }
  source.forEachChild(visit)
  found.bare.push(
    ...exportsOf(source)
      .filter(({ node }) => !node.jsDoc?.length)
      .map(({ name, node }) => `${at(node)} ${name}`),
  )
}

/** The type of `as const`. */
const isConst = (node: Node): boolean =>
  isTypeReferenceNode(node) && isIdentifier(node.typeName) && node.typeName.text === 'const'

/** Whether a node is a declaration `name!: Type` of a property or a variable. */
const isSaidToBeThere = (node: Node): boolean =>
  (isPropertyDeclaration(node) && node.postfixToken?.kind === SyntaxKind.ExclamationToken) ||
  (isVariableDeclaration(node) && node.exclamationToken !== undefined)

/** The declarations that a file exports, without what the file re-exports from other files. */
function exportsOf(source: SourceFile): { readonly name: string; readonly node: Node }[] {
  const exported: { name: string; node: Node }[] = []
  for (const node of source.statements) {
    if (isVariableStatement(node)) {
      if (isExported(node))
        for (const { name } of node.declarationList.declarations)
          exported.push({ name: isIdentifier(name) ? name.text : '{ … }', node })
    } else if (
      isFunctionDeclaration(node) ||
      isClassDeclaration(node) ||
      isInterfaceDeclaration(node) ||
      isTypeAliasDeclaration(node)
    ) {
      const name = node.name?.text ?? 'default'
      // The signatures of an overload count once; the first signature has the comment.
      if (isExported(node) && exported.at(-1)?.name !== name) exported.push({ name, node })
    }
  }
  return exported
}

const isExported = (node: { readonly modifiers?: readonly Node[] }): boolean =>
  node.modifiers?.some(({ kind }) => kind === SyntaxKind.ExportKeyword) ?? false

/** The name of a function, or else the name of the nearest declaration around it. */
function nameOf(node: Node): string {
  for (let one: Node | undefined = node; one; one = one.parent)
    if ('name' in one && one.name && isIdentifier(one.name as Node))
      return (one.name as { readonly text: string }).text
  return 'a function without a name'
}

const lineOf = (source: SourceFile, position: number): number =>
  source.getLineAndCharacterOfPosition(position).line + 1

const counted = (name: string, places: readonly string[]): Figure => ({
  name,
  value: places.length,
  places,
})

/** Counts the places over a limit. The figure lists the largest places even if none is over the limit. */
function over(name: string, limit: number, all: readonly Place[]): Figure {
  const sorted = all.toSorted((a, b) => b.size - a.size)
  return {
    name,
    value: sorted.filter(({ size }) => size > limit).length,
    places: sorted.slice(0, mostShown).map(({ size, at }) => `${size}  ${at}`),
  }
}

/** The limits in the table of CONTRIBUTING.md, by the names of the figures. */
export function limitsOn(page: string): Map<string, number> {
  const block = /<!-- generated: figures -->(.*?)<!-- end: figures -->/s.exec(page)?.[1] ?? ''
  return new Map(
    [...block.matchAll(/^\| (.+?) +\| *\d+ *\| *(\d+) *\|$/gm)].map(([, name = '', limit]) => [
      name,
      Number(limit),
    ]),
  )
}

if (import.meta.main) {
  const figures = measures()
  for (const { name, value, places } of figures) {
    console.log(`${name}: ${value}`)
    for (const place of places.slice(0, mostShown)) console.log(`    ${place}`)
  }
  if (process.argv.includes('--write')) {
    const page = await readFile('CONTRIBUTING.md', 'utf8')
    const limits = limitsOn(page)
    // A limit never rises, so that the kernel keeps what it has once reached.
    const rows = figures.map(({ name, value }) => [
      name,
      String(value),
      String(Math.min(value, limits.get(name) ?? value)),
    ])
    const figuresTable = () =>
      markdownTable(['of the kernel, where nothing else is said', 'today', 'at most'], rows)
    await writeFile('CONTRIBUTING.md', await withBlocks(page, { figures: figuresTable }))
  }
}
