import type { MaybePromise, Parsed, Schema, SchemaLike } from './schema.ts'
import type { TurnContext } from './context.ts'

/** A capability that the user's delegation must grant. */
export interface Demand<Input, Context> {
  /** The ability: `'notes/write'`. */
  readonly can: string
  /** The resource that the ability is demanded on; by default the user's own DID. */
  with?(input: Input, ctx: Context): string
}

/** Refuses what is not a schema, apart from the inference: an intersection with it there costs dearly. */
export type Schemas = Readonly<
  Record<string, { readonly input?: SchemaLike; readonly output?: SchemaLike }>
>

/** A tool but for its `output`, whose type the compiler infers apart from that of `input`. */
export interface ToolIn<Input, Context> {
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
   * Ask a person first: always, or when the function says so. False: the call is harmless whatever the turn has read,
   * so it runs without asking even after other people's words; a comment says why.
   */
  readonly approve?: boolean | ((input: Parsed<Input>, ctx: Context) => MaybePromise<boolean>)
  /**
   * Whether the result holds other people's words: by default that of a read does, that of a write does not. After
   * such a result no write of the turn runs before a person has agreed.
   */
  readonly foreign?: boolean
  /** False hides the tool for this turn. Answers at once: a promise here is a fault. */
  enabled?(ctx: Context): boolean
  /** Does the work, with parsed arguments. What it returns or throws is what the model reads. */
  run(input: Parsed<Input>, ctx: Context): unknown
}

/** The rest of a tool. */
export interface ToolOut<Output> {
  /** The shape of the result, for the client's types and checked before the model reads it. */
  readonly output?: Output
}

/** The section `tools`, from the schemas of its inputs and outputs. */
export type ToolSection<Inputs, Outputs, Context> = {
  [K in keyof Inputs]: ToolIn<Inputs[K], Context>
} & {
  [K in keyof Outputs]: ToolOut<Outputs[K]>
} & Schemas

/** A tool with its types erased, as the kernel runs it. */
export interface AnyTool extends ToolIn<Schema, TurnContext>, ToolOut<Schema> {}

/** A tool that runs the engine with a prompt of its own and some of its plugin's tools. */
export interface SubAgent<ToolName extends string = string> {
  /** One or two sentences for the model that hands the task over. */
  readonly description: string
  /** The system prompt of the sub-agent. */
  readonly prompt: string
  /** The tools of the plugin that the sub-agent may call. */
  readonly tools: readonly ToolName[]
  /** The id of a model; by default that of the turn. */
  readonly model?: string
}
