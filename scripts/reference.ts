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
import { markdownTable } from '../cli/table.ts'

/** The longest signature that the page shows in full; of a longer one it shows only the names of the parameters. */
const longestSignature = 100

/** The longest line of the page; a sentence that is longer goes on in the next line. */
const longestLine = 140

/** The blocks of `docs/reference.md`: the interfaces whose members each of them lists. */
const members: Record<string, readonly (readonly [file: string, name: string])[]> = {
  everywhere: [
    ['core/plugin/context.ts', 'Base'],
    ['core/plugin/context.ts', 'Call'],
  ],
  turn: [
    ['core/plugin/context.ts', 'OfTurn'],
    ['core/plugin/context.ts', 'TurnContext'],
  ],
  model: [['core/plugin/context.ts', 'ModelContext']],
  route: [['core/plugin/route.ts', 'RouteContext']],
  'job-context': [['core/plugin/jobs.ts', 'JobContext']],
  job: [['core/plugin/jobs.ts', 'Job']],
  jobs: [['core/plugin/jobs.ts', 'Jobs']],
  'later-options': [['core/plugin/jobs.ts', 'LaterOptions']],
  'later-job': [['core/plugin/jobs.ts', 'LaterJob']],
  sessions: [['core/plugin/sessions.ts', 'PluginSessions']],
  'new-words': [['core/plugin/sessions.ts', 'NewWords']],
  'shown-component': [['core/plugin/sessions.ts', 'ShownComponent']],
  'said-words': [['core/plugin/sessions.ts', 'SaidWords']],
  'wanted-session': [['core/plugin/sessions.ts', 'WantedSession']],
  'ensured-session': [['core/plugin/sessions.ts', 'EnsuredSession']],
  rooms: [['core/plugin/sessions.ts', 'Rooms']],
  'room-change': [
    ['core/plugin/rooms/change.ts', 'RoomChange'],
    ['core/plugin/rooms/change.ts', 'ToldRoomChange'],
  ],
  'held-lease': [['core/plugin/leases/lease.ts', 'HeldLease']],
  lease: [['core/plugin/leases/lease.ts', 'Lease']],
  'askable-model': [['core/plugin/models/asking.ts', 'AskableModel']],
  'ask-options': [['core/plugin/models/asking.ts', 'AskOptions']],
  'offered-models': [['core/plugin/models/asking.ts', 'OfferedModels']],
  'embed-options': [['core/plugin/models/asking.ts', 'EmbedOptions']],
  embedded: [
    ['core/plugin/models/asking.ts', 'Embedded'],
    ['core/plugin/model.ts', 'Embeddings'],
  ],
  'job-options': [['core/plugin/jobs.ts', 'JobIn']],
  'run-section': [['core/plugin/runs.ts', 'RunSection']],
  'run-admission': [['core/plugin/runs.ts', 'RunAdmission']],
  'run-beginning': [['core/plugin/runs.ts', 'RunBeginning']],
  'run-ending': [['core/plugin/runs.ts', 'RunEnding']],
  'run-usage': [
    ['core/plugin/model.ts', 'RunUsage'],
    ['core/plugin/model.ts', 'ModelUsage'],
  ],
  'run-tool': [['core/plugin/runs.ts', 'RunTool']],
  notice: [['core/plugin/notices.ts', 'Notice']],
  emit: [['core/plugin/context.ts', 'Emit']],
  user: [['core/plugin/context.ts', 'User']],
  setup: [['core/plugin/boot.ts', 'Boot']],
  booted: [['core/plugin/boot.ts', 'Booted']],
  oracle: [['core/plugin/boot.ts', 'Oracle']],
  turns: [['core/plugin/turns.ts', 'Turns']],
  'turn-answer': [['core/plugin/turns.ts', 'TurnAnswer']],
  'which-turn': [['core/plugin/turns.ts', 'WhichTurn']],
  'new-turn': [['core/plugin/turns.ts', 'NewTurn']],
  'started-turn': [['core/plugin/turns.ts', 'StartedTurn']],
  'begun-turn': [['core/plugin/turns.ts', 'BegunTurn']],
  'ended-turn': [['core/plugin/turns.ts', 'EndedTurn']],
  event: [['core/plugin/turn-event.ts', 'EventOf']],
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
  'own-request': [['core/plugin/route.ts', 'OwnRequest']],
  'own-caller': [['core/plugin/route.ts', 'OwnCaller']],
  'reply-options': [['core/runtime/http/answer/reply.ts', 'ReplyOptions']],
  'web-entry': [['core/plugin/route.ts', 'WebEntry']],
  'sub-agent': [
    ['core/plugin/tool.ts', 'SubAgentIn'],
    ['core/plugin/tool.ts', 'SubAgentOut'],
  ],
  'turn-tool': [['core/plugin/tool.ts', 'TurnTool']],
  middleware: [['core/plugin/middleware.ts', 'Middleware']],
  'pending-call': [['core/plugin/middleware.ts', 'PendingCall']],
  'model-port': [['core/plugin/model.ts', 'Model']],
  app: [['core/runtime/app.ts', 'App']],
  'app-options': [['core/runtime/app.ts', 'AppOptions']],
  'deliver-options': [['core/webhooks/deliver.ts', 'DeliverOptions']],
  'hmac-check': [['core/webhooks/verify-hmac.ts', 'HmacCheck']],
  'webhook-check': [['core/webhooks/verify-webhook.ts', 'WebhookCheck']],
  'test-app': [
    ['core/testing/test-app.ts', 'TestApp'],
    ['core/testing/calls.ts', 'Calls'],
  ],
  'test-app-options': [['core/testing/test-app.ts', 'TestAppOptions']],
  'test-clock': [['core/runtime/boot/test-clock.ts', 'TestClock']],
  'test-user': [['core/testing/test-app.ts', 'TestUser']],
  'heard-events': [['core/testing/heard-events.ts', 'HeardEvents']],
  'heard-event': [['core/testing/heard-events.ts', 'HeardEvent']],
  said: [['core/testing/turn.ts', 'Said']],
  'say-options': [['core/testing/turn.ts', 'SayOptions']],
  thread: [['core/testing/thread.ts', 'Thread']],
  'thread-options': [['core/testing/thread.ts', 'ThreadOptions']],
  'call-options': [['core/testing/thread.ts', 'CallOptions']],
  'streamed-event': [['core/testing/turn.ts', 'StreamedEvent']],
  'user-notices': [['core/testing/test-app.ts', 'UserNotices']],
  script: [['core/testing/scripted-model.ts', 'ScriptedAnswer']],
  'scripted-model': [['core/testing/scripted-model.ts', 'ScriptedModel']],
  'fake-webhook': [['core/testing/fake-webhook.ts', 'FakeWebhook']],
  'received-webhook': [['core/testing/fake-webhook.ts', 'ReceivedWebhook']],
  'fake-provider': [['testing/provider/fake-provider.ts', 'FakeProvider']],
  'provider-rules': [['testing/provider/answers.ts', 'ProviderRules']],
  'provider-speech': [['testing/provider/answers.ts', 'ProviderSpeech']],
  'provider-failure': [['testing/provider/answers.ts', 'ProviderFailure']],
  'provider-request': [['testing/provider/answers.ts', 'ProviderRequest']],
  'contract-options': [['core/testing/contract/scene.ts', 'ContractOptions']],
  'contract-report': [['core/testing/contract/scene.ts', 'ContractReport']],
}

/** The blocks that list what an entry of the package exports. */
const entries: Record<string, string> = {
  exports: 'core/index.ts',
  'webhooks-exports': 'core/webhooks/index.ts',
  'testing-exports': 'core/testing/index.ts',
  'provider-exports': 'testing/index.ts',
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
  return members
    .filter((one) => isShown(one) && !isForTheKernel(one))
    .flatMap((member) => {
      const literals = literalsOf(member)
      const sentence = sentenceOf(member)
      const line = `${indent}- \`${signatureOf(member, source, unknown)}\`${sentence && `: ${sentence}`}`
      return [
        wrapped(line, `${indent}  `),
        ...literals.flatMap((each) => membersOf(each, source, unknown, `${indent}  `)),
      ]
    })
}

/** A line broken between words, with the lines after the first behind `indent`. A code span stays on one line. */
function wrapped(line: string, indent: string): string {
  const [first = '', ...words] = line.match(/\s*(?:`[^`]*`|[^\s`])+/g) ?? []
  const lines = [first]
  for (const word of words) {
    const last = lines.at(-1) ?? ''
    if (last.length + word.length <= longestLine) lines[lines.length - 1] = last + word
    else lines.push(indent + word.trim())
  }
  return lines.join('\n')
}

/** Whether a caller can use a member: private fields (`#name`), constructors and what is `@internal` are not listed. */
const isShown = (member: Node): boolean =>
  (isPropertySignatureDeclaration(member) ||
    isMethodSignatureDeclaration(member) ||
    isPropertyDeclaration(member) ||
    isMethodDeclaration(member) ||
    isGetAccessorDeclaration(member)) &&
  isIdentifier(member.name) &&
  !isInternal(member)

/** Whether the package's declarations leave a member out. */
const isInternal = (member: Node): boolean =>
  member.jsDoc?.some(
    (comment) =>
      isJSDoc(comment) && comment.tags?.some(({ tagName }) => tagName.text === 'internal'),
  ) ?? false

/** Whether the doc comment of a member says that the kernel alone calls it. */
const isForTheKernel = (member: Node): boolean => sentenceOf(member).startsWith('For the kernel: ')

/** The object types that a member's declaration contains; their members get lines of their own. */
function literalsOf(member: Node): (readonly Node[])[] {
  const types = isMethodSignatureDeclaration(member)
    ? member.parameters.map(({ type }) => type)
    : isPropertySignatureDeclaration(member)
      ? [member.type]
      : []
  return types.flatMap((type) => (type && isTypeLiteralNode(type) ? [type.members] : []))
}

/**
 * The signature of a member, on one line. A signature that is long, or that names a type parameter, which the page does
 * not explain, is reduced to the names of the member and its parameters.
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
    .replace(/^(\w+) = (\(.*?\)(?:: \w+)?) => .*$/, '$1$2')
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

/** A table of the exports of an entry, with the first paragraph of each doc comment. */
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

/** The statement that contains a declaration, because the doc comment of a variable belongs to its statement. */
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
