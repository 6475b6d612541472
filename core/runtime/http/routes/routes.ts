import { createRequire } from 'node:module'
import type { Router as KoaRouter } from '@koa/router'
import { RuntimeError } from '../../../errors.ts'
import { bearerCanFault } from '../../../manifest/abilities.ts'
import { meant } from '../../../manifest/did-you-mean.ts'
import { unknownFields } from '../../../manifest/tools/known-fields.ts'
import { isSchema, shown } from '../../../manifest/tools/tools.ts'
import type { AnyRoute, Method, WebEntry } from '../../../plugin.ts'
import { isRecord } from '../../base/fields.ts'

// `require` instead of `import`: the router's ES module imports `node:http`, which node-http.ts avoids.
const Router: typeof KoaRouter = createRequire(import.meta.url)('@koa/router')
type Router = KoaRouter

/** A route as its owner declares it. The owner is a plugin's name, or `the kernel`. */
export interface DeclaredRoute {
  readonly key: string
  readonly owner: string
  readonly route: AnyRoute
}

/** A route key taken apart. */
export interface RouteKey {
  readonly method: Method
  readonly path: string
  readonly segments: readonly string[]
  /** The names of the path parameters, in order. */
  readonly params: readonly string[]
}

const methods: readonly string[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] satisfies Method[]
const isMethod = (text: string): text is Method => methods.includes(text)
const parameter = /^:[A-Za-z_][A-Za-z0-9_]*$/
const literal = /^[A-Za-z0-9._~$&',;=@%-]+$/
const unsafeNames = new Set([':__proto__', ':constructor'])

/** Reads `METHOD /path/:id`. A string is what is wrong with it. */
export function readRouteKey(key: string): RouteKey | string {
  const space = key.indexOf(' ')
  const method = key.slice(0, space)
  const path = key.slice(space + 1)
  if (space < 0) return 'it reads "METHOD /path"'
  if (!isMethod(method)) return `"${method}" is not one of ${methods.join(', ')}`
  const wrong = pathFault(path)
  if (wrong !== undefined) return wrong
  const segments = path === '/' ? [''] : path.slice(1).split('/')
  const params = segments.filter((segment) => segment.startsWith(':'))
  if (new Set(params).size < params.length) return 'a parameter stands in it twice'
  return { method, path, segments, params: params.map((name) => name.slice(1)) }
}

function pathFault(path: string): string | undefined {
  if (path === '/') return undefined
  if (!path.startsWith('/')) return 'the path begins with "/"'
  if (path.endsWith('/')) return 'the path ends with "/"'
  for (const segment of path.slice(1).split('/')) {
    if (segment === '') return 'the path has an empty segment'
    if (segment === '.' || segment === '..') return `"${segment}" cannot be reached`
    if (segment.startsWith(':') ? !parameter.test(segment) : !literal.test(segment))
      return `the segment "${segment}" is neither plain text nor ":name"`
    if (unsafeNames.has(segment)) return `a parameter cannot be called "${segment.slice(1)}"`
  }
  return undefined
}

/** Every malformed key, impossible option and clash among the routes, each as a fault of the boot. */
export function checkRoutes(routes: readonly DeclaredRoute[]): RuntimeError[] {
  const faults: RuntimeError[] = []
  const owners = new Map<string, DeclaredRoute>()
  for (const declared of routes) {
    const { key, owner, route } = declared
    const read = readRouteKey(key)
    const wrong = typeof read === 'string' ? read : optionFault(read, declared)
    if (wrong !== undefined)
      faults.push(
        new RuntimeError(
          'ROUTE_INVALID',
          `The route "${key}" of ${owner} is malformed: ${wrong}.`,
          {
            hint:
              typeof read === 'string'
                ? 'A route key reads "METHOD /path/:id", for example "GET /notes/:id".'
                : optionHint(route),
            details: { key, owner },
          },
        ),
      )
    if (typeof read === 'string') continue
    const shape = `${read.method} /${read.segments.map(withoutName).join('/')}`
    const first = owners.get(shape)
    if (first === undefined) owners.set(shape, declared)
    else
      faults.push(
        new RuntimeError(
          'ROUTE_CONFLICT',
          `${sentenceStart(first.owner)} and ${owner} both serve "${key}"` +
            `${first.key === key ? '' : `, which is "${first.key}" by another name`}.`,
          { hint: 'Change one of the two paths.', details: { key, owners: [first.owner, owner] } },
        ),
      )
  }
  return faults
}

/** A web module as its owner declares it: `/mount` and everything below. */
interface DeclaredMount extends WebEntry {
  readonly mount: string
  readonly owner: string
}

/** Every malformed or doubly claimed mount, each as a fault of the boot. */
export function checkMounts(mounts: readonly DeclaredMount[]): RuntimeError[] {
  const faults: RuntimeError[] = []
  const owners = new Map<string, string>()
  for (const declared of mounts) {
    const { mount, owner } = declared
    const wrong = mount.includes(':')
      ? 'it takes no parameters'
      : (pathFault(mount) ?? entryFault(declared))
    const first = owners.get(mount)
    if (wrong !== undefined)
      faults.push(
        new RuntimeError(
          'ROUTE_INVALID',
          `The mount "${mount}" of ${owner} is malformed: ${wrong}.`,
        ),
      )
    if (first === undefined) owners.set(mount, owner)
    else
      faults.push(
        new RuntimeError(
          'ROUTE_CONFLICT',
          `${sentenceStart(first)} and ${owner} both mount a web module at "${mount}".`,
          { hint: 'Change one of the two mounts.', details: { mount, owners: [first, owner] } },
        ),
      )
  }
  return faults
}

function entryFault({ handler, limit, cors }: DeclaredMount): string | undefined {
  if (typeof handler !== 'function') return 'it has no "handler" function'
  const wrong = limitFault(limit) ?? corsFault(cors)
  if (wrong !== undefined) return wrong
  return limit && 'by' in limit
    ? 'limit.by is for routes: a web module counts by address'
    : undefined
}

function limitFault(limit: WebEntry['limit']): string | undefined {
  if (limit && !(isCount(limit.max) && isCount(limit.perMs)))
    return 'limit.max and limit.perMs are whole numbers above zero'
  return undefined
}

function corsFault(cors: WebEntry['cors']): string | undefined {
  if (cors !== undefined && cors !== false && !Array.isArray(cors))
    return 'cors is false or a list of origins'
  const foreign = cors ? cors.find((origin) => origin !== originOf(origin)) : undefined
  if (foreign !== undefined) return `"${foreign}" is not an origin such as "https://example.org"`
  return undefined
}

const withoutName = (segment: string) => (segment.startsWith(':') ? ':' : segment)
const sentenceStart = (owner: string) => (owner.startsWith('the ') ? `T${owner.slice(1)}` : owner)
const auths: readonly unknown[] = [undefined, 'ucan', 'public', 'bearer', 'operator', 'own']

function optionFault({ method }: RouteKey, { owner, route }: DeclaredRoute): string | undefined {
  const { auth, limit, cors, body, can } = route
  for (const [message] of unknownFields('route', route)) return `it ${message}`
  const wrongKind = kindFault(route)
  if (wrongKind !== undefined) return wrongKind
  if (!auths.includes(auth)) return `"${String(auth)}" is not a kind of auth`
  if (!isDemand(can)) return `it has a "can" of ${shown(can)}`
  if (auth === 'own' && typeof route.verify !== 'function') return 'auth "own" needs a "verify"'
  if (route.verify && auth !== 'own') return '"verify" needs auth "own"'
  if (auth === 'own' && takesLines(route)) return 'auth "own" is for one whole body, not for lines'
  const wrongLimit = limitFault(limit)
  if (wrongLimit !== undefined) return wrongLimit
  if (body !== undefined && (method === 'GET' || method === 'DELETE'))
    return `a ${method} takes no body`
  if (route.raw && (method === 'GET' || method === 'DELETE' || takesLines(route)))
    return '"raw" is for a route that takes one whole body'
  const limits =
    typeof body === 'object' ? ('json' in body ? body : { maxBytes: body.maxBytes }) : {}
  for (const [name, bytes] of Object.entries(limits))
    if (!(bytes > 0)) return `body.${name} is above zero`
  const wrongCors = corsFault(cors)
  if (wrongCors !== undefined) return wrongCors
  if (can !== undefined && (auth === 'public' || auth === 'operator' || auth === 'own'))
    return `"can" asks for a capability, and ${auth} callers bring none`
  if (route.own && (auth !== 'bearer' || method !== 'GET'))
    return '"own" is for a GET that is bearer'
  if (auth === 'bearer') return bearerCanFault(owner, route)
  return undefined
}

/** An option that is not of its kind. Types cannot stop a plugin in plain JavaScript. */
function kindFault(route: AnyRoute): string | undefined {
  if (typeof route.run !== 'function') return 'it has no "run" function'
  for (const name of ['input', 'output'] as const)
    if (route[name] !== undefined && !isSchema(route[name]))
      return `its "${name}" is no schema such as z.object({ … })`
  for (const name of ['verify', 'own', 'onInvalid', 'onFault', 'onError'] as const)
    if (route[name] !== undefined && typeof route[name] !== 'function')
      return `its "${name}" is no function`
  const { raw, body, answers, limit } = route
  const { signed } = route
  if (signed !== undefined && typeof signed !== 'boolean' && signed !== 'self')
    return '"signed" is true, "self" or left out'
  if (raw !== undefined && typeof raw !== 'boolean') return '"raw" is true or false'
  if (body !== undefined && typeof body !== 'string' && !isRecord(body))
    return '"body" is a word or an object'
  if (answers !== undefined && !isRecord(answers)) return '"answers" is an object by status'
  if (limit !== undefined && !isRecord(limit)) return '"limit" is { max, perMs }'
  if (limit?.by !== undefined && typeof limit.by !== 'function') return '"limit.by" is a function'
  return undefined
}

/** What to write in place of an option that authors get wrong; undefined where the sentence of the fault says it all. */
function optionHint(route: AnyRoute): string | undefined {
  const { auth, can, verify } = route
  for (const [, hint] of unknownFields('route', route)) return hint
  if (!auths.includes(auth)) {
    const close = meant(String(auth), ['ucan', 'public', 'bearer', 'operator', 'own'])
    const all = `It is 'ucan', 'public', 'bearer', 'operator' or 'own'; left out, it is 'ucan'.`
    return `${close}${close && ' '}${all}`
  }
  if (!isDemand(can)) {
    const ability = typeof can === 'string' ? shown(can) : '"notes/read"'
    return `It is an object: can: { can: ${ability} }.`
  }
  if (auth === 'own' && typeof verify !== 'function')
    return 'Write verify: (request, ctx) => ({ caller: "name" }), or undefined for a caller whom it does not know.'
  if (verify && auth !== 'own') return `Write auth: 'own' beside it.`
  return undefined
}

const isDemand = (can: unknown): boolean =>
  can === undefined || (isRecord(can) && typeof can.can === 'string')

const isCount = (value: unknown) => Number.isInteger(value) && Number(value) > 0

/** Whether a body may come as lines, which nobody keeps whole. */
const takesLines = ({ body }: AnyRoute) =>
  body === 'ndjson' || (typeof body === 'object' && ('ndjson' in body || body.kind === 'ndjson'))

function originOf(text: string): string | undefined {
  return URL.canParse(text) ? new URL(text).origin : undefined
}

/** What the router found: the entry, and the parameters as they stand in the path. */
interface RouteMatch<T> {
  readonly entry: T
  readonly captures: readonly string[]
}

/**
 * Matches raw paths with @koa/router. A parameter is always one whole segment, so a path can only
 * match routes with as many segments and the same first word: each such group has a router of its
 * own, and a server of 150 routes tries a handful. Literals come before parameters, whatever the
 * order of registration. Case and a trailing slash count.
 */
export class RouteTable<T> {
  readonly #groups = new Map<number, Map<string, Router>>()
  readonly #found = new Map<unknown, T>()

  constructor(entries: readonly { readonly key: RouteKey; readonly entry: T }[]) {
    for (const { key, entry } of entries.toSorted((a, b) => bySpecificity(a.key, b.key))) {
      const first = withoutName(key.segments[0] ?? '')
      const byWord = getOr(this.#groups, key.segments.length, () => new Map<string, Router>())
      const router = getOr(byWord, first, () => new Router({ sensitive: true, strict: true }))
      // The router only matches; what runs is the entry.
      const layer = router.register(key.path, [key.method], () => undefined)
      this.#found.set(layer, entry)
    }
  }

  /** The route of a method at a path, literals first. */
  find(method: string, path: string): RouteMatch<T> | undefined {
    for (const router of this.#routersFor(path)) {
      const layer = router?.match(path, method).pathAndMethod[0]
      const entry = this.#found.get(layer)
      if (layer !== undefined && entry !== undefined)
        return { entry, captures: layer.paramNames.length > 0 ? layer.captures(path) : [] }
    }
    return undefined
  }

  /** The methods that answer at this path; empty when no route owns it. */
  methods(path: string): string[] {
    const layers = this.#routersFor(path).flatMap((router) => router?.match(path, 'GET').path ?? [])
    return [...new Set(layers.flatMap((layer) => layer.methods))]
  }

  #routersFor(path: string): (Router | undefined)[] {
    const second = path.indexOf('/', 1)
    let segments = 1
    for (let slash = second; slash > 0; slash = path.indexOf('/', slash + 1)) segments++
    const byWord = this.#groups.get(segments)
    if (byWord === undefined) return []
    return [byWord.get(second < 0 ? path.slice(1) : path.slice(1, second)), byWord.get(':')]
  }
}

function getOr<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const present = map.get(key)
  if (present !== undefined) return present
  const made = make()
  map.set(key, made)
  return made
}

/** Literals first, decided at the leftmost segment in which two keys differ in kind. */
function bySpecificity(a: RouteKey, b: RouteKey): number {
  // Paths of different lengths never match the same request; a sort needs an order of them all the same.
  if (a.segments.length !== b.segments.length) return a.segments.length - b.segments.length
  for (const [index, segment] of a.segments.entries()) {
    const other = b.segments[index]?.startsWith(':') ?? false
    const difference = Number(segment.startsWith(':')) - Number(other)
    if (difference !== 0) return difference
  }
  return 0
}
