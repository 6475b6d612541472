import type { Context as KoaContext, Middleware as KoaMiddleware } from 'koa'
import type { Fault, RuntimeError } from '../errors.ts'
import type { Base, User } from './context.ts'
import type { MaybePromise, Schema, SchemaLike } from './schema.ts'
import type { Demand, Schemas } from './tool.ts'

/**
 * Who may call a route: a user with a UCAN, anybody, a holder of the API key or of a granted right, or the operator.
 */
export type RouteAuth = 'ucan' | 'public' | 'bearer' | 'operator'

/** One line of an NDJSON body: its value, or why it has none. */
export type BodyLine =
  | { readonly number: number; readonly value: unknown; readonly fault?: undefined }
  | { readonly number: number; readonly value?: undefined; readonly fault: Fault }

/** What a route sees. In a `ucan` route `user` is always there and `state` holds the room-scoped keys. */
export interface RouteContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
  Auth = RouteAuth,
> extends Base<Env, Self, Peers> {
  /** The user who called; undefined where a route lets others in and somebody else called. */
  readonly user: UcanOnly<Auth, User>
  /** The plugin's room-scoped keys of that user. Assign to change them. */
  readonly state: UcanOnly<Auth, State>
  /** Who called: a DID, the name of the key, or the address of a public caller. */
  readonly caller: string
  /** The lines of the body, in a route with `body: 'ndjson'`. */
  readonly lines: AsyncIterable<BodyLine>
  /** The request and the response as Koa has them: the way out for what `run` cannot return. */
  readonly koa: KoaContext
}

/** How a route takes its body, and how much of it. */
export type RouteBody =
  | 'json'
  | 'ndjson'
  | { readonly kind?: 'json' | 'ndjson'; readonly maxBytes: number }
  | { readonly json: number; readonly ndjson: number }

/** Without `auth` a route is `ucan`, so an unknown here means locked: `T` is there. */
type UcanOnly<Auth, T> = unknown extends Auth ? T : [Auth] extends ['ucan'] ? T : T | undefined

/** The HTTP methods of routes. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
/** `:id` in a path is a parameter; `'GET /sessions/:id'` gives `{ id: string }`. */
export type PathParams<Key extends string> = string extends Key
  ? Record<string, string>
  : { [P in ParamNames<Key>]: string }
type ParamNames<S extends string> = S extends `${string}/:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | ParamNames<`/${Tail}`>
    : Rest
  : never
type CheckRouteKey<K> = K extends `${Method} /${string}`
  ? unknown
  : `A route key reads "METHOD /path" with GET, POST, PUT, PATCH or DELETE, for example "GET /notes/:id"`

/** How many requests of one counting a route takes in a time. */
export interface RouteLimit {
  /** So many requests. */
  readonly max: number
  /** The time, in milliseconds. */
  readonly perMs: number
  /**
   * Counts by what this function returns; undefined counts by the address. `body` reads the route's input, once for both,
   * and rejects when the input cannot be read or does not pass: the route then meets the same fault and answers it.
   */
  by?(koa: KoaContext, body: () => Promise<unknown>): MaybePromise<string | undefined>
}

/** A route but for `output` and `auth`, whose types the compiler infers apart from that of `input`. */
export interface RouteIn<Key extends string, Input, Context> {
  /** The schema of the path parameters merged with the query (GET, DELETE) or the body (the others). */
  readonly input?: Input
  /** Requests per `perMs` from one address; replaces the kernel's own limit on this route. */
  readonly limit?: RouteLimit
  /** Origins that browsers may call from; false closes the route to other origins. */
  readonly cors?: false | readonly string[]
  /**
   * `'ndjson'` hands the body over line by line as `ctx.lines`. With a limit for each a route takes both, as the
   * Content-Type says; `input` is then read from the query beside lines.
   */
  readonly body?: RouteBody
  /** One sentence for `/openapi.json`. */
  readonly summary?: string
  /**
   * Each status that the route answers and its media types, for `/openapi.json`; an empty list is an answer without a body.
   * Without it the route answers 200 with JSON. Errors in the usual shape need no entry.
   */
  readonly answers?: Readonly<Record<number, readonly string[]>>
  /** A capability that the caller must have, as in a tool. */
  readonly can?: Demand<RouteInput<Key, Input>, Context>
  /**
   * Whether anything here is the caller's own. A `bearer` GET with it lets callers with a DID in who lack the right, when
   * it says yes, before anything else of the request is read; the handler then shows them what is theirs alone.
   */
  own?(ctx: Context): MaybePromise<boolean>
  /** Renders a failed `input` where a protocol wants its own words. */
  onInvalid?(faults: readonly Fault[], ctx: Context): unknown
  /** The route tells repeats apart itself: the kernel passes over an Idempotency-Key. */
  readonly idempotent?: true
  /** Renders a fault on our side (a status of 500 and above) in a protocol's own words. The log has the fault all the same. */
  onFault?(error: RuntimeError, ctx: Context): unknown
  /** Does the work, with parsed input. A value is answered as JSON with status 200; `created` and `text` make other answers. */
  run(input: RouteInput<Key, Input>, ctx: Context): unknown
}

/** The shape of an answer, apart. */
export interface RouteOut<Output> {
  /** The shape of a JSON answer, for `/openapi.json`; the value is passed through it. */
  readonly output?: Output
}

/** Who may call, apart. */
export interface RouteAccess<Auth> {
  /** Who may call: `'ucan'` (the default), `'public'`, `'bearer'` or `'operator'`. */
  readonly auth?: Auth & RouteAuth
}

type RouteInput<Key extends string, Input> = Input extends SchemaLike
  ? Input['_zod']['output']
  : PathParams<Key>

/** The section `routes`, from the schemas of its inputs and outputs and from who may call. */
export type RouteSection<Inputs, Outputs, Auths, Env, Self, State, Peers> = {
  [K in keyof Inputs]: RouteIn<
    K & string,
    Inputs[K],
    RouteContext<Env, Self, State, Peers, K extends keyof Auths ? Auths[K] : unknown>
  > &
    CheckRouteKey<K>
} & { [K in keyof Outputs]: RouteOut<Outputs[K]> } & {
  [K in keyof Auths]: RouteAccess<Auths[K]>
} & Schemas

/** In the function form a handler's context cannot depend on its own route: `user` is optional there. */
export type LateRouteSection<Inputs, Outputs, Context> = {
  [K in keyof Inputs]: RouteIn<K & string, Inputs[K], Context> &
    RouteAccess<RouteAuth> &
    CheckRouteKey<K>
} & { [K in keyof Outputs]: RouteOut<Outputs[K]> } & Schemas

/** A route with its types erased, as the kernel serves it. */
export interface AnyRoute
  extends RouteIn<string, Schema, RouteContext>, RouteOut<Schema>, RouteAccess<RouteAuth> {}

/**
 * A web module: a Koa middleware for its mount and everything below. The kernel answers preflights by
 * CORS_ORIGIN, unless `answersPreflights` says that the module has a rule of its own.
 */
export type WebModule = KoaMiddleware & {
  readonly answersPreflights?: boolean
  /** What the module serves just now, as OpenAPI 3.1 with whole paths, for `/openapi.json`. The same object while nothing changes. */
  openapi?(): ServedApi | undefined
}

/** The operations of a web module, as an OpenAPI document has them. */
export interface ServedApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly schemas?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}
