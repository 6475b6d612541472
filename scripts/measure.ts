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
import { markdownTable } from './table.ts'

// npm run measure: where the kernel is longer, looser or less explained than it should be.

/** What a file, a function, a room and a line should not exceed. */
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

/** A place with the number that puts it in its order. */
interface Place {
  readonly size: number
  readonly at: string
}

/** The figures of the kernel, counted by the compiler's own reading of the sources. */
export function measures(): Figure[] {
  using sources = new Sources()
  const files = [...sources.below('core')].filter(({ path }) => !path.endsWith('.test.ts'))
  const found: Found = { any: [], casts: [], bangs: [], functions: [], bare: [], lines: [] }
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
    counted(`lines over ${longestLine} characters`, found.lines),
    counted(
      'exported names that exist twice',
      twice.map(([name, paths]) => `${name}: ${[...paths].join(', ')}`),
    ),
  ]
}

interface Found {
  readonly any: string[]
  readonly casts: string[]
  readonly bangs: string[]
  readonly functions: Place[]
  readonly bare: string[]
  readonly lines: string[]
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
  source.text.split('\n').forEach((line, i) => {
    if (line.length > longestLine) found.lines.push(`${path}:${i + 1}`)
  })
}

/** The type of `as const`. */
const isConst = (node: Node): boolean =>
  isTypeReferenceNode(node) && isIdentifier(node.typeName) && node.typeName.text === 'const'

/** `name!: Type`, in a class or of a variable. */
const isSaidToBeThere = (node: Node): boolean =>
  (isPropertyDeclaration(node) && node.postfixToken?.kind === SyntaxKind.ExclamationToken) ||
  (isVariableDeclaration(node) && node.exclamationToken !== undefined)

/** What a file declares and exports; what it passes on from elsewhere belongs to the other file. */
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
      // The signatures of an overload are one thing; the first one carries the comment.
      if (isExported(node) && exported.at(-1)?.name !== name) exported.push({ name, node })
    }
  }
  return exported
}

const isExported = (node: { readonly modifiers?: readonly Node[] }): boolean =>
  node.modifiers?.some(({ kind }) => kind === SyntaxKind.ExportKeyword) ?? false

/** What a reader would call a function: its own name, or that of what holds it. */
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

/** How many are larger than the limit. The largest are shown also where none is. */
function over(name: string, limit: number, all: readonly Place[]): Figure {
  const sorted = all.toSorted((a, b) => b.size - a.size)
  return {
    name,
    value: sorted.filter(({ size }) => size > limit).length,
    places: sorted.slice(0, mostShown).map(({ size, at }) => `${size}  ${at}`),
  }
}

/** The limits as CONTRIBUTING.md has them, by the names of the figures. */
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
    // A limit only ever falls: what was reached once is not lost again.
    const rows = figures.map(({ name, value }) => [
      name,
      String(value),
      String(Math.min(value, limits.get(name) ?? value)),
    ])
    const figuresTable = () => markdownTable(['of the kernel', 'today', 'at most'], rows)
    await writeFile('CONTRIBUTING.md', await withBlocks(page, { figures: figuresTable }))
  }
}
