/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** What the client uses of https://standardschema.dev, which zod from 3.24 on, valibot, arktype and others speak. */
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

/** The schema of a tool's arguments: one of a schema library, or a JSON Schema. `any` so that a list of tools may have every type. */
export type ToolSchema<Output = any> = StandardSchema<Output> | JsonSchema

/** The arguments that a tool's function receives: `any` for a JSON Schema, from which TypeScript reads no type. */
export type OutputOf<Schema> = Schema extends StandardSchema<infer Output> ? Output : any
