import type { JsonSchema } from './schema-form.tsx'

/** One operation of an OpenAPI document, with its method and path. */
export interface Operation {
  readonly method: string
  readonly path: string
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly {
    readonly name: string
    readonly in: string
    readonly required?: boolean
    readonly description?: string
    readonly schema?: JsonSchema
  }[]
  readonly requestBody?: {
    readonly content?: Readonly<Record<string, { readonly schema?: JsonSchema }>>
  }
  readonly responses?: Readonly<Record<string, { readonly description?: string }>>
  readonly security?: readonly Readonly<Record<string, unknown>>[]
}

/** The parts of an OpenAPI document that a page shows. */
export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, Omit<Operation, 'method' | 'path'>>>>
  >
}

const methods = ['get', 'post', 'put', 'patch', 'delete']

/** Every operation of a document, in the order of the document. */
export const operationsOf = ({ paths }: ApiDocument): Operation[] =>
  Object.entries(paths).flatMap(([path, item]) =>
    methods.flatMap((method) =>
      item[method] ? [{ ...item[method], method: method.toUpperCase(), path }] : [],
    ),
  )

/** The schema of a form for an operation: the parameters by name, and the body under `body`. */
export function formOf({ parameters = [], requestBody }: Operation): JsonSchema {
  const body = requestBody?.content?.['application/json']?.schema
  const shown = parameters.filter((parameter) => parameter.in !== 'header')
  return {
    type: 'object',
    properties: {
      ...Object.fromEntries(
        shown.map(({ name, schema, description }) => [
          name,
          { type: 'string', ...schema, description: description ?? schema?.description },
        ]),
      ),
      ...(requestBody && {
        body: { type: 'object', description: body ? `Fields: ${fieldsOf(body)}` : undefined },
      }),
    },
    required: shown.filter(({ required }) => required).map(({ name }) => name),
  }
}

const fieldsOf = (schema: JsonSchema) =>
  Object.keys(schema.properties ?? {})
    .map((name) => (schema.required?.includes(name) ? `${name}*` : name))
    .join(', ') || 'any JSON'

/** The address of an operation, with the values that the user typed in the form. */
export function addressOf(
  { path, parameters = [] }: Operation,
  values: Readonly<Record<string, unknown>>,
): string {
  const query = new URLSearchParams()
  let filled = path
  for (const { name, in: place } of parameters) {
    const value = values[name]
    if (place === 'path')
      filled = filled.replace(
        new RegExp(`\\{${name}(=[^}]*)?\\}`),
        encodeURIComponent(String(value ?? '')),
      )
    else if (place === 'query' && value !== undefined) query.set(name, String(value))
  }
  return query.size ? `${filled}?${query}` : filled
}
