import { circles, wrongFloor } from './floors.ts'
import { kernelWords } from './kernel-words.ts'

/** A source file by its path from the root of the project. */
export type Sources = ReadonlyMap<string, string>

interface Import {
  readonly from: string
  readonly typeOnly: boolean
  /** Whether the import is loaded when its line is reached, and not with the file. */
  readonly isDynamic: boolean
  readonly names: string
}

/** Where a package that shapes the code around it may be imported; types may be named anywhere in core. */
const homes: Record<string, RegExp> = {
  '@langchain/': /^core\/runtime\/(agent|model)\//,
  koa: /^core\/runtime\/http\//,
  '@koa/router': /^core\/runtime\/http\//,
  '@ucanto/': /^core\/(runtime\/auth|testing)\//,
}

/** Every place where the sources break a rule of the architecture, as sentences. */
export function violations(sources: Sources): string[] {
  const plugins = new Set(
    [...sources.keys()].flatMap((path) => /^plugins\/([^/]+)\/index\.ts$/.exec(path)?.[1] ?? []),
  )
  const single = [...sources].flatMap(([path, source]) => [
    ...importsOf(source).flatMap((imported) => wrongImport(path, source, imported, sources)),
    ...(path.startsWith('core/') && !isTest(path) ? namedPlugins(path, source, plugins) : []),
    ...(path.startsWith('core/') && !isTest(path) ? namedProviders(path, source) : []),
    ...(/^plugins\/playground\//.test(path) && !isTest(path) ? shown(path, source, plugins) : []),
    ...(/^(core|plugins|cli)\//.test(path) && !isTest(path) ? tooNew(path, source) : []),
  ])
  return [...single, ...circlesOf(sources)]
}

/** The rows of the table of the kernel's own words that excuse nothing any more. */
export function staleWords(sources: Sources): string[] {
  return Object.entries(kernelWords).flatMap(([word, places]) =>
    Object.keys(places)
      .filter((path) => !quotes(sources.get(path) ?? '', word))
      .map((path) => `test/support/kernel-words.ts: ${path} does not quote '${word}'`),
  )
}

/** Circles of files by values. Types may make a circle: they are gone when the code runs. */
function circlesOf(sources: Sources): string[] {
  const values = new Map<string, string[]>()
  for (const [path, source] of sources) {
    if (!path.startsWith('core/') || isTest(path)) continue
    const loaded = importsOf(source).filter(
      ({ from, typeOnly, isDynamic }) => from.startsWith('.') && !typeOnly && !isDynamic,
    )
    values.set(
      path,
      loaded.map(({ from }) => join(path, from)),
    )
  }
  return circles(values).map((circle) => `${circle}: files import each other's values in a circle`)
}

function wrongImport(
  path: string,
  source: string,
  { from, typeOnly, names }: Import,
  sources: Sources,
): string[] {
  const wrong = (why: string) => [`${path} imports ${from}: ${why}`]
  const target = from.startsWith('.') ? join(path, from) : from

  for (const [name, home] of Object.entries(homes)) {
    const meant = name.endsWith('/') ? from.startsWith(name) : from === name
    if (meant && !typeOnly && !isTest(path) && /^(core|plugins)\//.test(path) && !home.test(path))
      return wrong(`${name} belongs in ${home.source}`)
  }

  if (path.startsWith('core/')) {
    if (/^(cli|plugins|client|examples|scripts|server|testing)\b/.test(target))
      return wrong('the kernel never knows what is built on it')
    if (isTest(path) || !target.startsWith('core/')) return []
    if (path === 'core/error-codes.ts')
      return target === 'core/model-codes.ts' ? [] : wrong('the catalogue stands alone')
    if (path === 'core/model-codes.ts') return wrong('the catalogue stands alone')
    if (path === 'core/errors.ts')
      return target === 'core/error-codes.ts' ? [] : wrong('errors know only their catalogue')
    if (/^core\/plugin(\.ts$|\/)/.test(path) && !typeOnly)
      return wrong('the author’s types import nothing at run time')
    if (
      path.startsWith('core/manifest/') &&
      !/^core\/(manifest\/|plugin\.ts|errors\.ts)/.test(target)
    )
      return wrong('the manifest knows only the types and the errors')
    if (path.startsWith('core/runtime/') && target.startsWith('core/testing/'))
      return wrong('the runtime does not know its tests')
    const floor = wrongFloor(path, target)
    return floor === undefined ? [] : wrong(floor)
  }

  const own = /^plugins\/([^/]+)\//.exec(path)?.[1]
  if (own) {
    const sibling = /^plugins\/([^/]+)\//.exec(target)?.[1]
    if (sibling && sibling !== own)
      return requires(own, names, target, sources)
        ? []
        : wrong(`${own} does not require ${sibling}`)
    if (target.startsWith('core/')) return wrong('a plugin comes in by the front door, #core')
    if (from === '#core/testing' && !isTest(path)) return wrong('the testing entry is for tests')
    if (/^(cli|server|scripts|examples|client|testing)\b/.test(target))
      return wrong('a plugin stands on the kernel alone')
    return []
  }
  if (
    path.startsWith('cli/') &&
    /^(plugins\/[^/]+\/|scripts|client|examples|testing|test)\b/.test(target)
  )
    return wrong('the command line reads the app of the folder, and is part of the package')
  if (path.startsWith('testing/') && !/^(testing|core)\//.test(target) && from.startsWith('.'))
    return wrong('what tests are made with stands on the kernel alone')
  if (path.startsWith('client/') && /^(core|plugins)\//.test(target) && !typeOnly)
    return wrong('the client imports types only')
  return []
}

/** Whether the plugin lists what it imports from a sibling in its `requires`, or in `uses` where the sibling may be missing. */
function requires(plugin: string, names: string, target: string, sources: Sources): boolean {
  if (!/^plugins\/[^/]+\/index\.ts$/.test(target)) return false
  const index = sources.get(`plugins/${plugin}/index.ts`) ?? ''
  // A plugin whose module has a function of the environment as its default comes by its name.
  const imported = names.replace(/^\{(.*)\}$/s, '$1').trim()
  const listed = [...index.matchAll(/\b(?:requires|uses):\s*\[([^\]]*)\]/g)].map(([, list]) => list)
  return listed
    .join()
    .split(',')
    .some((entry) => entry.trim() !== '' && entry.trim() === imported)
}

/**
 * The plugins that a file of the kernel names: as a whole string, by the folder or as “the … plugin”. Other words of a
 * sentence are free, and so are the quotes that the table of the kernel's own words lists.
 */
function namedPlugins(path: string, source: string, plugins: ReadonlySet<string>): string[] {
  return [...plugins]
    .filter((name) => {
      const isOwnWord = kernelWords[name]?.[path] !== undefined
      const isNamed = matches(`plugins/${name}\\b|\\b${name} plugin\\b`, source)
      return isNamed || (!isOwnWord && quotes(source, name))
    })
    .map((name) => `${path} names the plugin ${name}: the kernel knows kinds, never names`)
}

/**
 * The plugins that the playground names: as a whole string, by an address, or within a name of the code, as in `WeatherCard`. It
 * shows what plugins bring, whatever they are called. The entries of the client library are no plugins.
 */
function shown(path: string, source: string, plugins: ReadonlySet<string>): string[] {
  return [...plugins]
    .filter((name) => {
      const word = name.charAt(0).toUpperCase() + name.slice(1)
      const quoted = new RegExp(`['"\`](#?/)?${name}(['"\`]|/)`)
      const within = new RegExp(`[a-z]${word}(?![a-z])|\\b${word}[A-Z]`)
      return name !== 'playground' && (quoted.test(source) || within.test(source))
    })
    .map((name) => `${path} names the plugin ${name}: the playground shows what plugins bring`)
}

/** Syntax that the oldest Node of `engines` cannot read: types are stripped from our sources, and nothing else is changed. */
const tooNew = (path: string, source: string): string[] =>
  matches('^\\s*(?:await )?using [\\w$]+ = ', source)
    ? [`${path} has a \`using\` declaration, which Node 22 cannot read: end it in \`finally\``]
    : []

/** The providers of models: the kernel keeps the port, and plugins know the providers. */
const providers =
  'openai|azure|openrouter|deepseek|mistral|groq|xai|moonshotai|z-ai|together|fireworks|lmstudio|vllm|anthropic|google|gemini|ollama|ai-sdk'

/** The providers of models that a file of the kernel names: in quotes, before a slash, as a variable, or in its own path. */
function namedProviders(path: string, source: string): string[] {
  const quotedOne = `['"\`](${providers})['"\`/]`
  const quoted = matches(quotedOne, source)
    ? new RegExp(quotedOne, 'i').exec(source)?.[1]
    : undefined
  const variable = /\b[A-Z_]*(OPENAI|ANTHROPIC|GOOGLE|GEMINI|OLLAMA)_[A-Z_]+/.exec(source)?.[0]
  const inPath = new RegExp(`(^|[/.-])(${providers})([/.-]|$)`, 'i').exec(path)?.[2]
  const named = quoted ?? variable ?? inPath
  return named ? [`${path} names the provider ${named}: the kernel knows none`] : []
}

/** Whether a source holds the word as a whole string. */
const quotes = (source: string, word: string): boolean => matches(`(['"\`])${word}\\1`, source)

const answers = new Map<string, Map<string, boolean>>()

/** Whether a pattern is in a source, without regard to case. Each answer is kept, because the tests ask again and again. */
function matches(pattern: string, source: string): boolean {
  const known = answers.get(pattern) ?? new Map<string, boolean>()
  answers.set(pattern, known)
  const answer = known.get(source) ?? new RegExp(pattern, 'im').test(source)
  known.set(source, answer)
  return answer
}

/** The imports of each source: the tests plant one line among thousands of files, a hundred times. */
const known = new Map<string, Import[]>()

/** Every import of a source, of types too, and every export from another file. */
export function importsOf(source: string): Import[] {
  const found = known.get(source) ?? readImports(source)
  known.set(source, found)
  return found
}

function readImports(source: string): Import[] {
  const statics = [
    ...source.matchAll(
      /^\s*(?:(?:import|export)\s+(type\s+)?([^'"();]*?)\s*\bfrom\s+|import\s+)['"]([^'"]+)['"]/gm,
    ),
  ].map(([, type, names = '', from = '']) => ({
    from,
    names,
    typeOnly: type !== undefined || onlyTypes(names),
    isDynamic: false,
  }))
  const dynamic = [...source.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g)].map(
    ([, from = '']) => ({ from, names: '', typeOnly: false, isDynamic: true }),
  )
  return [...statics, ...dynamic]
}

/** `{ type A, type B }` */
const onlyTypes = (names: string): boolean =>
  /^\{.*\}$/s.test(names) &&
  names
    .slice(1, -1)
    .split(',')
    .filter((name) => name.trim())
    .every((name) => /^\s*type\s/.test(name))

const isTest = (path: string): boolean => /\.test(-d)?\.tsx?$/.test(path)

/** Where a relative import of a file leads. */
export function join(path: string, relative: string): string {
  const parts = path.split('/').slice(0, -1)
  for (const part of relative.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '.') parts.push(part)
  }
  return parts.join('/')
}
