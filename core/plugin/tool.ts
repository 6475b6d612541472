import type { MaybePromise, Parsed, Returned, Schema, SchemaLike } from './schema.ts'
import type { TurnContext } from './context.ts'
import type { AnyPlugin } from './definition.ts'

/** A capability that the user's delegation must grant. */
export interface Demand<Input, Context> {
  /** The ability: `'notes/write'`. */
  readonly can: string
  /** The resource that the ability is demanded on; by default the user's own DID. */
  with?(input: Input, ctx: Context): string
}

/** Refuses what is not a schema. It stands apart from the inference, where an intersection with a schema costs a lot. */
export type Schemas = Readonly<
  Record<string, { readonly input?: SchemaLike; readonly output?: SchemaLike }>
>

/** A tool but for its `output`, whose type the compiler infers apart from that of `input`. */
export interface ToolIn<Input, Context, Output = unknown> {
  /** One or two sentences for the model: what the tool does and when to call it. */
  readonly description: string
  /** The schema of the arguments. */
  readonly input: Input
  /** A write (the default) is executed at most once, whatever crashes; a read may run again. */
  readonly effect?: 'read' | 'write'
  /**
   * A capability that the user's delegation must grant before the tool runs: `{ can: 'notes/write' }`, and
   * `with: (input, ctx) => did` where the resource is another than the user's own DID.
   */
  readonly can?: Demand<Parsed<Input>, Context>
  /**
   * Ask a person first: always, or when the function says so, which may answer with the sentence that the person is asked.
   * False: the call is harmless whatever the turn has read, so it runs without asking even after other people's words; a
   * comment says why.
   */
  readonly approve?:
    boolean | ((input: Parsed<Input>, ctx: Context) => MaybePromise<boolean | string>)
  /**
   * Whether the result holds other people's words: by default that of a read does, that of a write does not. After
   * such a result no write of the turn runs before a person has agreed.
   */
  readonly foreign?: boolean
  /**
   * How long a call may take, in milliseconds: by default TOOL_TIMEOUT_MS, at most an hour. Then `ctx.signal` fires, and a
   * second later the model reads that the call ended in TOOL_TIMEOUT. The wait for a person's consent does not count.
   */
  readonly timeoutMs?: number
  /**
   * For a read: how often a call that failed for the moment (an upstream that is away, a connection that broke) is tried
   * again. 1 by default, at most 10.
   */
  readonly retry?: number
  /**
   * For a write: it may be repeated with the same `ctx.callKey`, because the service behind it knows such keys. After a
   * crash in the middle the call then runs again; without this the model reads that the outcome is unknown.
   */
  readonly repeatable?: boolean
  /**
   * How much of a result the model reads at once, in bytes: 32 KiB by default, at most 256 KiB. A result that is larger stays
   * JSON: arrays lose whole items from the end, texts their tail, and the model reads on with `read_result`.
   */
  readonly maxResultBytes?: number
  /**
   * Arguments that traces of runs hide, as paths: `['pin']`, `['card.number']`, `['lines.*.secret']`. The model and the tool
   * have them as they are.
   */
  readonly redact?: readonly string[]
  /** How many calls one user may make: `max` in `perMs` milliseconds. Over that the model reads when to try again. */
  readonly limit?: { readonly max: number; readonly perMs: number }
  /** False hides the tool for this turn. Answers at once: a promise here is a fault. */
  enabled?(ctx: Context): boolean
  /**
   * Does the work, with parsed arguments. What `run` returns or throws is what the model reads; beside an `output`, `run`
   * returns what that schema takes.
   */
  run(input: Parsed<Input>, ctx: Context): Returned<Output>
}

/** The rest of a tool. */
export interface ToolOut<Output> {
  /** The shape of the result, for the client's types and checked before the model reads it. */
  readonly output?: Output
}

type CheckInput<Input> = unknown extends Input
  ? `A tool has an "input", a schema of its arguments, for example z.object({ city: z.string() })`
  : unknown

/** The section `tools`, from the schemas of its inputs and outputs. */
export type ToolSection<Inputs, Outputs, Context> = {
  [K in keyof Inputs]: ToolIn<Inputs[K], Context, K extends keyof Outputs ? Outputs[K] : unknown>
} & {
  [K in keyof Outputs]: ToolOut<Outputs[K]> &
    CheckInput<K extends keyof Inputs ? Inputs[K] : unknown>
} & Schemas

/** A tool with its types erased, as the kernel runs it. */
export interface AnyTool extends ToolIn<Schema, TurnContext>, ToolOut<Schema> {}

/** What a tool of `toolsFor` is called with: what the model said. The kernel checks that it is an object of a bounded size. */
export type TurnToolArguments = Readonly<Record<string, unknown>>

/** A tool that one user has in one turn. `toolsFor` makes it. */
export interface TurnTool<Context = TurnContext> {
  /** One or two sentences for the model: what the tool does and when to call it. At most 4,000 characters. */
  readonly description: string
  /**
   * The JSON Schema of the arguments, at most 32 KiB. The model reads it. The kernel runs no schema that is data, so `run`
   * gets any object: check what matters there.
   */
  readonly parameters: Readonly<Record<string, unknown>>
  /** A write (the default) is executed at most once, whatever crashes; a read may run again. */
  readonly effect?: 'read' | 'write'
  /** Whether the result holds other people's words: true by default. False needs a reason in a comment. */
  readonly foreign?: boolean
  /** Ask a person first, as in a tool of `tools`. */
  readonly approve?:
    boolean | ((args: TurnToolArguments, ctx: Context) => MaybePromise<boolean | string>)
  /** How long a call may take, in milliseconds: by default TOOL_TIMEOUT_MS, at most an hour. */
  readonly timeoutMs?: number
  /** Does the work. What `run` returns or throws is what the model reads. */
  run(args: TurnToolArguments, ctx: Context): unknown
}

/** The tools of one user in one turn, by name: 1 to 64 letters, digits, `_` and `-`. */
export type TurnTools<Context = TurnContext> = Readonly<Record<string, TurnTool<Context>>>

/** What a sub-agent is told: by default a task in words. */
type TaskOf<Input> = Input extends SchemaLike ? Parsed<Input> : { readonly task: string }

/** A sub-agent but for its `output`, whose type the compiler infers apart from that of `input`. */
export interface SubAgentIn<Input, Context, ToolName, Borrowed> {
  /** One or two sentences for the model that hands the work over. */
  readonly description: string
  /** The schema of what the sub-agent is told; by default `{ task }`, a text. The sub-agent reads it as its first message. */
  readonly input?: Input
  /** The system prompt of the sub-agent: text, or a function of the input that may be async. */
  readonly prompt: string | ((input: TaskOf<Input>, ctx: Context) => MaybePromise<string>)
  /** The tools of the plugin that the sub-agent may call. */
  readonly tools?: readonly ToolName[]
  /**
   * Tools of other plugins that the sub-agent may call, loaded or not: `[[weather, 'get_current_weather']]`, of plugins in
   * `requires` and `uses`. Each keeps its `can`, `approve`, `foreign`, limits and middleware. Where the app lacks a plugin
   * of `uses`, its tools are missing.
   */
  readonly borrow?: readonly Borrowed[]
  /** The id of a model; by default that of the turn. */
  readonly model?: string
  /** How often the sub-agent calls its model: 10 by default, and never more than TURN_MAX_CALLS. */
  readonly maxCalls?: number
  /**
   * How long the sub-agent may take, in milliseconds: 300,000 by default, at most an hour. Then the signal of its work
   * fires, and the model that called it reads TOOL_TIMEOUT. The wait for a person's consent does not count.
   */
  readonly timeoutMs?: number
}

/** The rest of a sub-agent. */
export interface SubAgentOut<Output> {
  /**
   * The shape of the result. The sub-agent then ends by its tool `return_result`. When what it returns does not fit, it may
   * mend that twice, and then the call fails with SUBAGENT_RESULT_INVALID. Without it the result is the sub-agent's last words.
   */
  readonly output?: Output
}

/** Refuses what is not a schema, apart from the inference. The other fields are checked beside it. */
type SubAgentSchemas = Readonly<
  Record<
    string,
    {
      readonly input?: SchemaLike
      readonly output?: SchemaLike
      readonly [field: string]: unknown
    }
  >
>

/** The section `subAgents`, from the schemas of its inputs and outputs. */
export type SubAgentSection<Inputs, Outputs, Context, ToolName, Borrowed> = {
  [K in keyof Inputs]: SubAgentIn<Inputs[K], Context, ToolName, Borrowed>
} & { [K in keyof Outputs]: SubAgentOut<Outputs[K]> } & SubAgentSchemas

/** A sub-agent with its types erased, as the kernel runs it. */
export interface AnySubAgent
  extends
    Omit<SubAgentIn<Schema, TurnContext, string, readonly [AnyPlugin, string]>, 'prompt'>,
    SubAgentOut<Schema> {
  readonly prompt: string | ((input: unknown, ctx: TurnContext) => MaybePromise<string>)
}
