import type { AgAction, RegisteredAction } from './actions.ts'
import { toOracleError } from './error.ts'
import { type JsonSchema, toJsonSchema, type ToolSchema, validated } from './schema.ts'
import { backoff } from './backoff.ts'
import { pause, type Timing } from './timing.ts'

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
  const agActions = actions.map(async ({ name, description, parameters, hasRender, effect }) => ({
    ...(await described(name, description, parameters)),
    hasRender,
    effect,
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

/** Runs a tool of the page, or an action. Its failure is an outcome too: the model reads it. */
export async function carriedOut(
  tools: IBrowserTools | ReadonlyMap<string, RegisteredAction>,
  name: string,
  args: unknown,
): Promise<Outcome> {
  try {
    const [schema, run] = tools instanceof Map ? ofAction(tools.get(name)) : ofTool(tools, name)
    if (!run || !schema) throw new Error(`The page has no tool "${name}" any more.`)
    const result = (await run(await validated(schema, args))) ?? null
    JSON.stringify(result) // Throws here, where it can be told, for what JSON cannot hold.
    return { result }
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
    return { result: null, error }
  }
}

const ofAction = (action: RegisteredAction | undefined) =>
  [action?.parameters, action?.handler] as const

function ofTool(tools: object, name: string) {
  const all = Object.entries(tools) as [string, IBrowserToolParams][]
  const tool = all.find(([key, { toolName }]) => (toolName || key) === name)?.[1]
  return [tool?.schema, tool && ((args: unknown) => tool.fn(args))] as const
}

/** Hands an outcome in until it is taken, or refused for good; the model hears of that when its time is up. */
export async function untilTaken(
  handIn: () => Promise<unknown>,
  signal: AbortSignal,
  timing: Timing,
): Promise<void> {
  for (let tries = 1; !signal.aborted && tries <= timing.retries; tries++) {
    try {
      return void (await handIn())
    } catch (error) {
      const { status, code } = toOracleError(error)
      if (status >= 400 && status < 500 && code !== 'rate_limited') return
      await pause(backoff(tries, timing), signal)
    }
  }
}
