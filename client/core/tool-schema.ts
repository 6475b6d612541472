export type JsonSchema = Readonly<Record<string, unknown>>

/** What we use of https://standardschema.dev: zod 3.24 and later, zod 4, valibot, arktype, … */
export interface StandardSchema<Output = any> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Checked<Output> | Promise<Checked<Output>>
    readonly types?: { readonly input: unknown; readonly output: Output } | undefined
    readonly jsonSchema?: { readonly input: (options: { target: 'draft-2020-12' }) => JsonSchema }
  }
}

type Checked<Output> =
  { readonly value: Output; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

interface Issue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** What the arguments of a tool look like: a schema of a library, or JSON Schema as it stands. */
export type ToolSchema<Output = any> = StandardSchema<Output> | JsonSchema

/** What a tool's function is given: `any` for plain JSON Schema, which has no type to tell. */
export type OutputOf<Schema> = Schema extends StandardSchema<infer Output> ? Output : any
