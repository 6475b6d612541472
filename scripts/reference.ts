import {
  getTextOfJSDocComment,
  isClassDeclaration,
  isExportDeclaration,
  isGetAccessorDeclaration,
  isIdentifier,
  isInterfaceDeclaration,
  isJSDoc,
  isMethodDeclaration,
  isMethodSignatureDeclaration,
  isNamedExports,
  isParameterDeclaration,
  isPropertyDeclaration,
  isPropertySignatureDeclaration,
  isTypeLiteralNode,
  type Node,
  type SourceFile,
} from 'typescript/unstable/ast'
import { Sources } from './sources.ts'
import { markdownTable } from './table.ts'

/** A longer signature is shown by the names of its parameters alone. */
const longestSignature = 100

/** The blocks of `docs/reference.md`: the interfaces whose members each of them lists. */
const members: Record<string, readonly (readonly [file: string, name: string])[]> = {
  everywhere: [
    ['core/plugin/context.ts', 'Base'],
    ['core/plugin/context.ts', 'Call'],
  ],
  turn: [['core/plugin/context.ts', 'TurnContext']],
  model: [['core/plugin/context.ts', 'ModelContext']],
  route: [['core/plugin/route.ts', 'RouteContext']],
  emit: [['core/plugin/context.ts', 'Emit']],
  user: [['core/plugin/context.ts', 'User']],
  setup: [['core/plugin/boot.ts', 'Boot']],
  booted: [['core/plugin/boot.ts', 'Booted']],
  oracle: [['core/plugin/boot.ts', 'Oracle']],
  turns: [['core/plugin/turns.ts', 'Turns']],
  event: [['core/plugin/turns.ts', 'TurnEvent']],
  manifest: [['core/plugin/manifest.ts', 'Manifest']],
  definition: [
    ['core/plugin/definition.ts', 'Needs'],
    ['core/plugin/definition.ts', 'PluginDefinition'],
    ['core/plugin/definition.ts', 'Offers'],
  ],
  tool: [
    ['core/plugin/tool.ts', 'ToolIn'],
    ['core/plugin/tool.ts', 'ToolOut'],
  ],
  'route-options': [
    ['core/plugin/route.ts', 'RouteAccess'],
    ['core/plugin/route.ts', 'RouteIn'],
    ['core/plugin/route.ts', 'RouteOut'],
  ],
  limit: [['core/plugin/route.ts', 'RouteLimit']],
  'sub-agent': [['core/plugin/tool.ts', 'SubAgent']],
  middleware: [['core/plugin/middleware.ts', 'Middleware']],
  'pending-call': [['core/plugin/middleware.ts', 'PendingCall']],
  'model-port': [['core/plugin/model.ts', 'Model']],
  app: [['core/runtime/app.ts', 'App']],
  'app-options': [['core/runtime/app.ts', 'AppOptions']],
  'test-app': [
    ['core/testing/test-app.ts', 'TestApp'],
    ['core/testing/test-app.ts', 'Calls'],
  ],
  'test-user': [['core/testing/test-app.ts', 'TestUser']],
  said: [['core/testing/turn.ts', 'Said']],
  'say-options': [['core/testing/turn.ts', 'SayOptions']],
  thread: [['core/testing/thread.ts', 'Thread']],
  'thread-options': [['core/testing/thread.ts', 'ThreadOptions']],
  script: [['core/testing/scripted-model.ts', 'ScriptedAnswer']],
  'scripted-model': [['core/testing/scripted-model.ts', 'ScriptedModel']],
}

/** The blocks that list what an entry of the package exports. */
const entries: Record<string, string> = {
  exports: 'core/index.ts',
  'testing-exports': 'core/testing/index.ts',
}

let made: ReadonlyMap<string, string> | undefined

/** The generated blocks of `docs/reference.md`, by name; the compiler reads the sources when the first is asked for. */
export const reference: Record<string, () => string> = Object.fromEntries(
  [...Object.keys(members), ...Object.keys(entries)].map((name) => [
    name,
    () => {
      made ??= makeBlocks()
      return made.get(name) ?? ''
    },
  ]),
)

function makeBlocks(): Map<string, string> {
  using sources = new Sources()
  const blocks = new Map<string, string>()
  for (const [block, declared] of Object.entries(members)) {
    const lines = declared.flatMap(([path, name]) => linesOf(sources.file(path), path, name))
    blocks.set(block, lines.join('\n'))
  }
  for (const [block, path] of Object.entries(entries)) blocks.set(block, exportsOf(sources, path))
  return blocks
}

/** A line for each public member of an interface or a class. */
function linesOf(source: SourceFile, path: string, name: string): string[] {
  for (const one of source.statements)
    if ((isInterfaceDeclaration(one) || isClassDeclaration(one)) && one.name?.text === name)
      return membersOf(one.members, source, new Set(one.typeParameters?.map((p) => p.name.text)))
  throw new Error(`${path} declares no interface and no class ${name}`)
}

function membersOf(
  members: readonly Node[],
  source: SourceFile,
  unknown: ReadonlySet<string>,
  indent = '',
): string[] {
  return members.filter(isShown).flatMap((member) => {
    const literals = literalsOf(member)
    const sentence = sentenceOf(member)
    const line = `${indent}- \`${signatureOf(member, source, unknown)}\`${sentence && `: ${sentence}`}`
    return [line, ...literals.flatMap((each) => membersOf(each, source, unknown, `${indent}  `))]
  })
}

/** What a caller can use: fields that begin with `#` and constructors are the class's own. */
const isShown = (member: Node): boolean =>
  (isPropertySignatureDeclaration(member) ||
    isMethodSignatureDeclaration(member) ||
    isPropertyDeclaration(member) ||
    isMethodDeclaration(member) ||
    isGetAccessorDeclaration(member)) &&
  isIdentifier(member.name)

/** The object types that are written out in a member: what they hold has sentences of its own. */
function literalsOf(member: Node): (readonly Node[])[] {
  const types = isMethodSignatureDeclaration(member)
    ? member.parameters.map(({ type }) => type)
    : isPropertySignatureDeclaration(member)
      ? [member.type]
      : []
  return types.flatMap((type) => (type && isTypeLiteralNode(type) ? [type.members] : []))
}

/**
 * A member as its declaration writes it, on one line. Where that is long, or names a type parameter, of which a reader
 * of the page knows nothing, the names alone stand there.
 */
function signatureOf(member: Node, source: SourceFile, unknown: ReadonlySet<string>): string {
  const body =
    isMethodDeclaration(member) || isGetAccessorDeclaration(member) ? member.body?.pos : undefined
  const text = source.text
    .slice(member.getStart(source), body ?? member.end)
    .replace(/\/\*\*.*?\*\//gs, '')
    .replace(/\b(readonly|async) (?=\w)/g, '')
    .replace(/^get (\w+)\(\)/, '$1')
    .replace(/ = (new [^;]+|\[\])$/, '')
    .replace(/\s+/g, ' ')
    .trim()
  const isKnown = !text.match(/\w+/g)?.some((word) => unknown.has(word))
  if (isKnown && text.length <= longestSignature && !literalsOf(member).length) return text
  const name = text.slice(0, text.search(/[<(:]/))
  const parameters: string[] = []
  member.forEachChild((child) => {
    if (isParameterDeclaration(child) && isIdentifier(child.name)) parameters.push(child.name.text)
    return undefined
  })
  return parameters.length > 0 ? `${name}(${parameters.join(', ')})` : name
}

/** What an entry exports, with the first paragraph of each doc comment. */
function exportsOf(sources: Sources, path: string): string {
  const rows: string[][] = []
  for (const statement of sources.file(path).statements) {
    if (!isExportDeclaration(statement) || !statement.exportClause) continue
    if (!isNamedExports(statement.exportClause)) continue
    for (const { name } of statement.exportClause.elements) {
      const symbol = sources.checker.getSymbolAtLocation(name)
      const declared = symbol && sources.checker.getAliasedSymbol(symbol).declarations[0]?.resolve()
      const documented = declared && statementOf(declared)
      if (isIdentifier(name))
        rows.push([`\`${name.text}\``, documented ? sentenceOf(documented) : ''])
    }
  }
  return markdownTable(['name', 'what it is'], rows)
}

/** The statement that a declaration stands in: a variable's comment is that of its statement. */
function statementOf(node: Node): Node {
  let one = node
  while (one.parent?.parent && !one.jsDoc) one = one.parent
  return one
}

/** The first paragraph of a doc comment, on one line. */
function sentenceOf(node: Node): string {
  const comment = node.jsDoc?.findLast(isJSDoc)?.comment
  const [paragraph = ''] = (getTextOfJSDocComment(comment) ?? '').split(/\n\s*\n/)
  return paragraph.replace(/\s+/g, ' ').trim().replace(/:$/, '.')
}
