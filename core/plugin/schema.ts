import type { z } from 'zod'

/** Any zod schema. Bounded by the core type, which costs the compiler half of what `ZodType` does. */
export type Schema = z.core.$ZodType
/** Enough of a schema to read its types; comparing with a whole schema costs the compiler a lot. */
export type SchemaLike = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
/** A map of names to schemas, as far as their types go. */
export type ShapeLike = Readonly<Record<string, SchemaLike>>
/** A map of names to schemas: an environment slice, a set of state keys. */
export type Shape = Readonly<Record<string, Schema>>
/** The type of what a schema returns once it has parsed. */
export type Parsed<S> = S extends SchemaLike ? S['_zod']['output'] : never
/** The same for each schema of a map. */
export type ParsedShape<S> = { [K in keyof S]: Parsed<S[K]> }
/** What a `run` with this `output` returns: what the schema takes. Without a schema, anything. */
export type Returned<Output> = Output extends SchemaLike
  ? MaybePromise<Output['_zod']['input']>
  : unknown
/** A value, or a promise of it: an author's function may be async or not. */
export type MaybePromise<T> = T | Promise<T>
