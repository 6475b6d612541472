import { z } from 'zod'
import { RuntimeError, type Fault } from '../errors.ts'
import { didYouMean } from '../manifest/did-you-mean.ts'
import type { AnyTool, PendingCall, Schema, ToolCall, ToolSpec } from '../plugin.ts'
import { capabilityTools, isLoaded, type KernelTool } from './capabilities.ts'
import { onion, type Layer } from './onion.ts'
import type { PluginRecord } from './plugin-record.ts'
import { turnContext, type Turn } from './turn.ts'

/** How a call ended, as the model and the listeners get it. */
export interface ToolOutcome {
  /** What the tool message says: text as it is, everything else as JSON. */
  readonly content: string
  readonly value?: unknown
  /** Set when the call failed: the same error, for the transcript and the log. */
  readonly error?: RuntimeError
}

/** A tool the model may call, prepared at boot. */
export interface ToolEntry {
  readonly name: string
  /** Undefined for the kernel's own. */
  readonly record: PluginRecord | undefined
  readonly tool: AnyTool | KernelTool
  readonly spec: ToolSpec
  readonly effect: 'read' | 'write'
}

/** One call on its way through the onion. */
interface Calling {
  readonly call: PendingCall
  readonly entry: ToolEntry
  readonly turn: Turn
}

/** Every tool of an app, and the one way to call them. */
export class Tools {
  readonly #entries = new Map<string, ToolEntry>()
  readonly #records: readonly PluginRecord[]
  #run: (calling: Calling) => Promise<unknown>

  constructor(records: readonly PluginRecord[]) {
    this.#records = records
    for (const [name, tool] of Object.entries(capabilityTools(records)))
      this.#add(name, tool, undefined)
    for (const record of records)
      for (const [name, tool] of Object.entries(record.tools)) this.#add(name, tool, record)
    this.#run = this.#compose()
  }

  /** A plugin whose setup finished after the server was up joins late. */
  join(record: PluginRecord) {
    for (const [name, tool] of Object.entries(record.tools)) this.#add(name, tool, record)
    this.#run = this.#compose()
  }

  #add(name: string, tool: AnyTool | KernelTool, record: PluginRecord | undefined) {
    const spec = { name, description: tool.description, parameters: parameters(tool.input) }
    this.#entries.set(name, { name, tool, record, spec, effect: tool.effect ?? 'write' })
  }

  entry(name: string): ToolEntry | undefined {
    return this.#entries.get(name)
  }

  /** What the model is shown: the kernel's tools and those of loaded plugins that are enabled now. */
  specs(turn: Turn): ToolSpec[] {
    const specs: ToolSpec[] = []
    for (const { record, tool, spec } of this.#entries.values()) {
      if (record && !(record.base && isLoaded(record, turn.loaded))) continue
      if (record && (tool as AnyTool).enabled?.(turnContext(record, turn)) === false) continue
      specs.push(spec)
    }
    return specs
  }

  /** Runs one call through gate, validation, middleware and the tool. It never rejects. */
  async call(call: ToolCall, turn: Turn): Promise<ToolOutcome> {
    try {
      const entry = this.#gate(call, turn)
      const args = await validate(call, entry.tool.input)
      const pending: PendingCall = {
        id: call.id,
        name: call.name,
        plugin: entry.record?.name ?? 'kernel',
        effect: entry.effect,
        args,
      }
      const value = await this.#run({ call: pending, entry, turn })
      return { content: rendered(value), value }
    } catch (thrown) {
      const error = asToolError(call.name, thrown)
      return { content: explained(error), error }
    }
  }

  /** Refuses what is not loaded, whatever the model believes, and says what to do instead. */
  #gate({ name }: ToolCall, turn: Turn): ToolEntry {
    const entry = this.#entries.get(name)
    if (!entry) {
      const close = didYouMean(name, this.#entries.keys())
      throw new RuntimeError('NOT_FOUND', `There is no tool called "${name}".`, {
        hint: close ? `Did you mean "${close}"?` : 'Call list_capabilities to see what there is.',
      })
    }
    const { record } = entry
    if (record && record.visibility === 'silent')
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is not for agents.`)
    if (record && !record.base)
      throw new RuntimeError(
        'UNAVAILABLE',
        `The tool "${name}" belongs to ${record.name}, which is ${record.state}.`,
        {
          hint: record.reason,
        },
      )
    if (record && !isLoaded(record, turn.loaded))
      throw new RuntimeError(
        'FORBIDDEN',
        `The tool "${name}" belongs to the capability "${record.name}", which is not loaded.`,
        {
          hint: `Call load_capability with names: ["${record.name}"] first.`,
        },
      )
    if (record && (entry.tool as AnyTool).enabled?.(turnContext(record, turn)) === false)
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is switched off in this turn.`)
    return entry
  }

  #compose() {
    const layers = this.#records
      .filter((record) => record.base && record.definition.middleware?.tool)
      .map((record): Layer<Calling, unknown> => {
        const layer = record.definition.middleware!.tool!
        return ({ call, turn }, next) => layer(call, turnContext(record, turn, call.id), next)
      })
    return onion(layers, execute)
  }
}

/** The core of the onion: the capability check, then the tool itself. */
async function execute({ call, entry, turn }: Calling): Promise<unknown> {
  const { record, tool } = entry
  if (!record) return await (tool as KernelTool<unknown>).run(call.args, turn)
  const plugin = tool as AnyTool
  const ctx = turnContext(record, turn, call.id)
  if (plugin.can) {
    const { can, with: resourceOf } = plugin.can
    const resource = resourceOf?.(call.args, ctx) ?? turn.user.did
    if (!turn.user.can(can, resource))
      throw new RuntimeError(
        'FORBIDDEN',
        `The user's delegation does not grant "${can}" on ${resource}.`,
        {
          hint: 'Ask the user to authorise it, then try again.',
          details: { causes: turn.user.denial(can, resource) },
        },
      )
  }
  const value = await plugin.run(call.args, ctx)
  return plugin.output ? await z.parseAsync(plugin.output, value) : value
}

async function validate(call: ToolCall, schema: Schema): Promise<unknown> {
  const parsed = await z.safeParseAsync(schema, call.args ?? {})
  if (parsed.success) return parsed.data
  const faults = faultsOf(parsed.error)
  throw new RuntimeError(
    'INVALID_INPUT',
    `The arguments of "${call.name}" do not fit: ${faultText(faults)}`,
    {
      hint: 'Correct the arguments and call it again.',
      details: faults,
    },
  )
}

/** Zod's issues as the faults that callers and models read. */
export function faultsOf(error: z.core.$ZodError): Fault[] {
  return error.issues.map(({ path, message }) => ({ path: path.map(String).join('.'), message }))
}

/** The faults as one sentence. */
export const faultText = (faults: readonly Fault[]): string =>
  faults.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; ')

/** A tool's input schema as a model reads it, without the key that some providers refuse. */
function parameters(schema: Schema): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  return json
}

function rendered(value: unknown): string {
  if (value === undefined || value === null) return 'Done.'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function asToolError(tool: string, thrown: unknown): RuntimeError {
  if (thrown instanceof RuntimeError) return thrown
  if (thrown instanceof Error && thrown.name === 'AbortError')
    return new RuntimeError('ABORTED', `The tool "${tool}" was stopped.`, {
      status: 499,
      cause: thrown,
    })
  return new RuntimeError('INTERNAL', `The tool "${tool}" failed.`, {
    hint: 'Tell the user that it did not work; the log has the cause.',
    cause: thrown,
  })
}

/** An error as the model reads it: what happened and what to do, without anything internal. */
function explained(error: RuntimeError): string {
  return JSON.stringify({
    error: error.message,
    code: error.code,
    hint: error.hint,
    details: error.details,
  })
}
