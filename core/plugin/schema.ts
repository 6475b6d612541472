import type { z } from 'zod'

/** Any zod schema. Bounded by the core type, which costs the compiler half of what `ZodType` does. */
export type Schema = z.core.$ZodType
/** Enough of a schema to read its types; comparing with all of it costs the compiler dearly. */
export type SchemaLike = { readonly _zod: { readonly input: unknown; readonly output: unknown } }
/** A map of names to schemas, as far as their types go. */
export type ShapeLike = Readonly<Record<string, SchemaLike>>
/** A map of names to schemas: an environment slice, a set of state keys. */
export type Shape = Readonly<Record<string, Schema>>
/** The type of what a schema returns once it has parsed. */
export type Parsed<S> = S extends SchemaLike ? S['_zod']['output'] : never
/** The same for each schema of a map. */
export type ParsedShape<S> = { [K in keyof S]: Parsed<S[K]> }
/** A value, or a promise of it: an author's function may be async or not. */
export type MaybePromise<T> = T | Promise<T>
