import type { AgAction } from './actions.ts'
import { type JsonSchema, toJsonSchema, type ToolSchema, validated } from './schema.ts'

/** A tool that runs in the page. */
export interface IBrowserToolParams {
  readonly toolName: string
  readonly description: string
  readonly schema: ToolSchema
  readonly fn: (args: any) => unknown // any: what the schema beside it says
}
export type IBrowserTools = Readonly<Record<string, IBrowserToolParams>>

/** What the server is told of the page's tools and actions. */
export async function announced(
  browserTools: IBrowserTools | undefined,
  actions: readonly AgAction[],
): Promise<{ tools?: Announced[]; agActions?: Announced[] }> {
  const tools = Object.entries(browserTools ?? {}).map(([key, { toolName, description, schema }]) =>
    described(toolName || key, description, schema),
  )
  const agActions = actions.map(async ({ name, description, parameters, hasRender }) => ({
    ...(await described(name, description, parameters)),
    hasRender,
  }))
  return {
    ...(tools.length > 0 && { tools: await Promise.all(tools) }),
    ...(agActions.length > 0 && { agActions: await Promise.all(agActions) }),
  }
}

interface Announced {
  readonly name: string
  readonly description: string
  readonly schema: JsonSchema
}

const described = async (
  name: string,
  description: string,
  schema: ToolSchema,
): Promise<Announced> => ({
  name,
  description,
  schema: await toJsonSchema(name, schema),
})

/** What came of a call in the page. */
export interface Outcome {
  readonly result: unknown
  readonly error?: string
}

/** Runs a tool of the page. Its failure is an outcome too: the model reads it. */
export async function carriedOut(
  tool: { readonly schema: ToolSchema; run(args: unknown): unknown } | undefined,
  name: string,
  args: unknown,
): Promise<Outcome> {
  try {
    if (!tool) throw new Error(`The page has no tool "${name}" any more.`)
    const result = (await tool.run(await validated(tool.schema, args))) ?? null
    JSON.stringify(result) // Throws here, where it can be told, for what JSON cannot hold.
    return { result }
  } catch (thrown) {
    return {
      result: null,
      error: thrown instanceof Error ? thrown.message || thrown.name : String(thrown),
    }
  }
}

export const toolNamed = (tools: IBrowserTools | undefined, name: string) =>
  Object.entries(tools ?? {}).find(([key, { toolName }]) => (toolName || key) === name)?.[1]
