import type { IncomingHttpHeaders } from 'node:http'
import type { Context as KoaContext, Middleware as KoaMiddleware } from 'koa'
import type { Fault, RuntimeError } from '../errors.ts'
import type { Base, User } from './context.ts'
import type { UnknownInputs } from './jobs.ts'
import type { Rooms } from './sessions.ts'
import type { MaybePromise, Schema, SchemaLike } from './schema.ts'
import type { Demand, Schemas } from './tool.ts'

/**
 * Who may call a route: a user with a UCAN, anybody, a holder of the API key or of a granted right, the operator, or
 * whom the route's own `verify` lets in.
 */
export type RouteAuth = 'ucan' | 'public' | 'bearer' | 'operator' | 'own'

/** A request as the `verify` of a route sees it, before anything of its body is parsed. */
export interface OwnRequest {
  /** The HTTP method, in capitals. */
  readonly method: string
  /** The path as it was sent, without the query. */
  readonly path: string
  /** The query as it was sent, without the question mark; empty when there is none. */
  readonly query: string
  /** The headers, their names in small letters. */
  readonly headers: IncomingHttpHeaders
  /** The address of the client. */
  readonly ip: string
  /** The bytes of the body; none when there is no body. */
  raw(): Buffer
}

/** Whom a route's own `verify` has found. */
export interface OwnCaller {
  /** A name for limits, repeats and audit lines: at most 200 characters, and no control character. */
  readonly caller: string
  /** The user on whose behalf the caller calls. `ctx.user` is that user, without any capability. */
  readonly user?: { readonly did: string }
}

/** One line of an NDJSON body: its value, or why it has none. */
export type BodyLine =
  | {
      readonly number: number
      readonly value: unknown
      /** The line as it was sent: a number with more digits than a double keeps shows them only here. */
      readonly text?: string
      readonly fault?: undefined
    }
  | { readonly number: number; readonly value?: undefined; readonly fault: Fault }

/** What a route sees. In a `ucan` route `user` is always there and `state` holds the room-scoped keys. */
export interface RouteContext<
  Env = unknown,
  Self = unknown,
  State = Record<string, unknown>,
  Peers = unknown,
  Auth = RouteAuth,
  Inputs = UnknownInputs,
> extends Base<Env, Self, Peers, Inputs> {
  /** The user who called; undefined where a route lets others in and somebody else called. */
  readonly user: UcanOnly<Auth, User>
  /** The plugin's room-scoped keys of that user. Assign to change them. */
  readonly state: UcanOnly<Auth, State>
  /** The plugin's room-scoped keys of any user. */
  readonly rooms: Rooms<State>
  /** Who called: a DID, the name of the key, or the address of a public caller. */
  readonly caller: string
  /** The body as it was sent, in a route with `raw: true`: what a signature is checked against. */
  readonly raw: Buffer
  /** The lines of the body, in a route with `body: 'ndjson'`. */
  readonly lines: AsyncIterable<BodyLine>
  /** The request and the response as Koa has them, for an answer that `run` cannot return. */
  readonly koa: KoaContext
}

/** An error as a caller may read it. */
export interface ToldError {
  /** The status of the answer. */
  readonly status: number
  /** The stable code, such as `NOT_FOUND`. */
  readonly code: string
  /** The sentence for whoever called. */
  readonly message: string
  /** What to do next. */
  readonly hint?: string
  /** What else the error says, such as the faults of an input. */
  readonly details?: unknown
  /** The id by which the log knows the request. */
  readonly requestId: string
}

/** Makes the body of an error's answer. */
export type RendersErrors = (error: ToldError) => unknown

/** How a route takes its body, and how much of it. */
export type RouteBody =
  | 'json'
  | 'ndjson'
  | { readonly kind?: 'json' | 'ndjson'; readonly maxBytes: number }
  | { readonly json: number; readonly ndjson: number }

/** `T`, or undefined where callers without a user come too. Without `auth` a route is `ucan`, so unknown gives `T`. */
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

type CheckAuth<Auth> = Auth extends RouteAuth
  ? Auth
  : `The auth of a route is "ucan", "public", "bearer", "operator" or "own"`

/** How many requests of one counting a route takes in a time. */
export interface RouteLimit {
  /** So many requests. */
  readonly max: number
  /** The time, in milliseconds. */
  readonly perMs: number
  /**
   * Counts by what this function returns; undefined counts by the address. `body` reads the route's input, once for both,
   * and rejects when the input cannot be read or does not pass: the route then meets the same fault and answers it.
   * It has forty seconds, with the reading.
   */
  by?(koa: KoaContext, body: () => Promise<unknown>): MaybePromise<string | undefined>
}

/** A route but for `output` and `auth`, whose types the compiler infers apart from that of `input`. */
export interface RouteIn<
  Key extends string,
  Input,
  Context extends { readonly env: unknown },
  Output = unknown,
> {
  /** The schema of the path parameters merged with the query (GET, DELETE) or the body (the others). */
  readonly input?: Input
  /**
   * Requests per `perMs` from one address; replaces the kernel's own limit on this route. A function makes the limit of the
   * plugin's variables, once, at boot.
   */
  readonly limit?: RouteLimit | ((env: Context['env']) => RouteLimit)
  /** Origins that browsers may call from; false closes the route to other origins. */
  readonly cors?: false | readonly string[]
  /**
   * `'ndjson'` hands the body over line by line as `ctx.lines`. With a limit for each a route takes both, as the
   * Content-Type says; `input` is then read from the query beside lines.
   */
  readonly body?: RouteBody
  /**
   * Tells who calls a route with `auth: 'own'`, for example by a signature over the body; undefined is answered 401. The
   * kernel asks before it counts the route's `limit`, and before it parses anything.
   */
  verify?(request: OwnRequest, ctx: Context): MaybePromise<OwnCaller | undefined>
  /** Keeps the bytes of the body as `ctx.raw`, beside the `input`. Without `input` the body may be of any type. */
  readonly raw?: true
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
   * No personal key opens a `ucan` route with this: the request has to be signed. With 'self' the key of the DID itself has
   * signed it, and not one to which the user has delegated calling: for what would outlive that delegation.
   */
  readonly signed?: true | 'self'
  /**
   * Whether anything here is the caller's own. Where this says yes, a `bearer` GET lets a caller with a DID in who lacks
   * the right, before anything else of the request is read; the handler then shows only what is the caller's own. It has five
   * seconds.
   */
  own?(ctx: Context): MaybePromise<boolean>
  /** Renders a failed `input` where a protocol wants its own words. */
  onInvalid?(faults: readonly Fault[], ctx: Context): unknown
  /** The route tells repeats apart itself: the kernel ignores an Idempotency-Key. */
  readonly idempotent?: true
  /** Renders a fault on our side (a status of 500 and above) in a protocol's own words. The log has the fault all the same. */
  onFault?(error: RuntimeError, ctx: Context): unknown
  /**
   * Renders every refusal and fault of the route, those of authentication and limits included, in a protocol's own words: what
   * it returns is the body, as JSON. The status and the headers stay.
   */
  readonly onError?: RendersErrors
  /**
   * Does the work, with parsed input. A value becomes a JSON answer with status 200; `reply`, `created` and `text` make other
   * answers, and a `Response` is served. With an `output` the value, or the body of the reply, is what that schema takes.
   */
  run(input: RouteInput<Key, Input>, ctx: Context): Answered<Output>
}

/** An answer that is more than a JSON value with status 200, as `reply`, `created` and `text` make it. */
interface ReplyLike<Body> {
  readonly status: number
  readonly type: string | undefined
  readonly body: Body
  readonly headers: Readonly<Record<string, string>>
}

/**
 * What a route with an `output` returns: what the schema takes, by itself or in a `reply`. Nobody can tell what a `Response`
 * or a stream holds before it is sent, so these are for routes without an `output`.
 */
type Answered<Output> = Output extends SchemaLike
  ? MaybePromise<Output['_zod']['input'] | ReplyLike<Output['_zod']['input']>>
  : unknown

/** The shape of a route's answer, which the compiler infers by itself. */
export interface RouteOut<Output> {
  /** The shape of a JSON answer, for `/openapi.json`; the kernel parses the value by this schema. */
  readonly output?: Output
}

/** The `auth` of a route, which the compiler infers by itself. */
export interface RouteAccess<Auth> {
  /** Who may call: `'ucan'` (the default), `'public'`, `'bearer'`, `'operator'`, or `'own'` beside a `verify`. */
  readonly auth?: CheckAuth<Auth>
}

type RouteInput<Key extends string, Input> = Input extends SchemaLike
  ? Input['_zod']['output']
  : PathParams<Key>

/** The section `routes`, from the schemas of its inputs and outputs and from who may call. */
export type RouteSection<Inputs, Outputs, Auths, Env, Self, State, Peers, JobInputs> = {
  [K in keyof Inputs]: RouteIn<
    K & string,
    Inputs[K],
    RouteContext<Env, Self, State, Peers, K extends keyof Auths ? Auths[K] : unknown, JobInputs>,
    K extends keyof Outputs ? Outputs[K] : unknown
  > &
    CheckRouteKey<K>
} & { [K in keyof Outputs]: RouteOut<Outputs[K]> } & {
  [K in keyof Auths]: RouteAccess<Auths[K]>
} & Schemas

/** In the function form a handler's context cannot depend on its own route: `user` is optional there. */
export type LateRouteSection<Inputs, Outputs, Context extends { readonly env: unknown }> = {
  [K in keyof Inputs]: RouteIn<
    K & string,
    Inputs[K],
    Context,
    K extends keyof Outputs ? Outputs[K] : unknown
  > &
    RouteAccess<RouteAuth> &
    CheckRouteKey<K>
} & { [K in keyof Outputs]: RouteOut<Outputs[K]> } & Schemas

/** A route with its types erased, as a plugin writes it. */
export interface WrittenRoute
  extends RouteIn<string, Schema, RouteContext>, RouteOut<Schema>, RouteAccess<RouteAuth> {}

/** A route as the kernel serves it: a `limit` that was a function of the variables is known. */
export interface AnyRoute extends WrittenRoute {
  readonly limit?: RouteLimit
}

/**
 * A web module: a Koa middleware for its mount and everything below. The kernel answers preflights by
 * CORS_ORIGIN, unless `answersPreflights` says that the module has a rule of its own.
 */
export type WebModule = KoaMiddleware & {
  readonly answersPreflights?: boolean
  /** What the module serves just now, as OpenAPI 3.1 with whole paths, for `/openapi.json`. The same object while nothing changes. */
  openapi?(): ServedApi | undefined
}

/** A web module with rules of its own in place of the kernel's. */
export interface WebEntry {
  /** The web module. */
  readonly handler: WebModule
  /** Requests per `perMs` from one address; replaces the kernel's own limit on what this module is asked. */
  readonly limit?: Pick<RouteLimit, 'max' | 'perMs'>
  /** Origins that browsers may call from; false closes the module to other origins. Without it CORS_ORIGIN holds. */
  readonly cors?: false | readonly string[]
}

/** The operations of a web module, as an OpenAPI document has them. */
export interface ServedApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly schemas?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}
