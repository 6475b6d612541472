import type { Turn } from '../core/chat/turn.ts'
import { toOracleError } from '../core/error.ts'
import type { AgAction, IBrowserToolParams, IBrowserTools, RegisteredAction } from '../core/page.ts'
import type { Call } from '../core/request.ts'
import { backoff, pause, type Timing } from '../core/timing.ts'
import type { JsonSchema, ToolSchema } from '../core/tool-schema.ts'
import { toJsonSchema, validated } from './schema.ts'

/** A call that the agent makes of a tool, or of an action, of the page. */
export interface PageToolCall {
  readonly toolCallId: string
  readonly toolName: string
  readonly args: unknown
}

/** What the tools of a page need of the chat whose calls they answer. */
export interface PageToolsOptions {
  readonly sessionId: string
  readonly timing: Timing
  readonly actions: ReadonlyMap<string, RegisteredAction>
  /** The tools that the page has now. */
  tools(): IBrowserTools
  /** Sends a frame on the event channel, where there is one. */
  send(frame: unknown): void
  /** Asks the oracle. */
  json(path: string, call: Call): Promise<unknown>
  /** Keeps a turn over a reload of the page. */
  remember(turn: Turn): void
}

/** A tool or an action as the oracle reads about it. */
interface Announced {
  readonly name: string
  readonly description: string
  readonly schema: JsonSchema
}

/** The result or the error of a call in the page. */
interface Outcome {
  readonly result: unknown
  readonly error?: string
}

/** The tools and actions of one page, as its chat announces them, runs them and hands their results in. */
export class PageTools {
  readonly #options: PageToolsOptions

  constructor(options: PageToolsOptions) {
    this.#options = options
  }

  /** What the oracle reads of the page's tools and actions. */
  async announced(): Promise<{ tools?: Announced[]; agActions?: Announced[] }> {
    const tools = Object.entries(this.#options.tools()).map(
      ([key, { toolName, description, schema }]) => described(toolName || key, description, schema),
    )
    const agActions = [...this.#options.actions.values()].map(
      async ({ name, description, parameters, hasRender, effect }: AgAction) => ({
        ...(await described(name, description, parameters)),
        hasRender,
        effect,
      }),
    )
    return {
      ...(tools.length > 0 && { tools: await Promise.all(tools) }),
      ...(agActions.length > 0 && { agActions: await Promise.all(agActions) }),
    }
  }

  /** Runs a tool of the page, or an action, and hands in what came of it. */
  async run(
    turn: Turn,
    { toolCallId, toolName, args }: PageToolCall,
    isAction: boolean,
  ): Promise<void> {
    const { actions, tools } = this.#options
    const runnable = isAction ? ofAction(actions.get(toolName)) : ofTool(tools(), toolName)
    return this.#handIn(turn, toolCallId, await carriedOut(runnable, toolName, args))
  }

  /** Hands in that a page was reloaded during a call. */
  handInUnknown(turn: Turn, toolCallId: string): Promise<void> {
    return this.#handIn(turn, toolCallId, {
      result: null,
      error: 'The page was reloaded while it did this: the outcome is unknown.',
    })
  }

  /** Gives the server what came of a call: on the channel where there is one, and surely over HTTP. */
  async #handIn(turn: Turn, toolCallId: string, outcome: Outcome): Promise<void> {
    const { sessionId, timing, send, json, remember } = this.#options
    const { signal } = turn
    send({ type: 'tool_result', toolCallId, sessionId, ...outcome })
    const body = { toolCallId, ...outcome }
    await untilTaken(
      () => json(`/runs/${turn.runId}/tool-results`, { body, signal }),
      signal,
      timing,
    )
    turn.close(toolCallId)
    remember(turn)
  }
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

/** A tool or an action, ready to be run; undefined when the page has it no more. */
type Runnable =
  { readonly schema: ToolSchema; readonly run: (args: unknown) => unknown } | undefined

const ofAction = (action: RegisteredAction | undefined): Runnable =>
  action && { schema: action.parameters, run: action.handler }

function ofTool(tools: IBrowserTools, name: string): Runnable {
  const tool = Object.entries<IBrowserToolParams>(tools).find(
    ([key, { toolName }]) => (toolName || key) === name,
  )?.[1]
  return tool && { schema: tool.schema, run: (args) => tool.fn(args) }
}

/** Runs a tool or an action. Its failure is an outcome too: the model reads it. */
async function carriedOut(runnable: Runnable, name: string, args: unknown): Promise<Outcome> {
  try {
    if (!runnable) throw new Error(`The page has no tool "${name}" any more.`)
    const result = (await runnable.run(await validated(runnable.schema, args))) ?? null
    JSON.stringify(result) // For a result that JSON cannot hold this throws here, where the model can read why.
    return { result }
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown.message || thrown.name : String(thrown)
    return { result: null, error }
  }
}

/**
 * Hands an outcome in until the server takes it or refuses it for good. The model then reads that the time of the
 * call is up.
 */
async function untilTaken(
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
