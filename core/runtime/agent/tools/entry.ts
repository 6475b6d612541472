import { z } from 'zod'
import type { AnyTool, Schema, ToolSpec } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type { RateLimits } from '../../http/limits/rate-limit.ts'
import type { KernelTool } from '../turn/capabilities.ts'
import { turnContext } from '../turn/turn.ts'
import type { Calling } from './tool-call.ts'

/** What holds for all tools of an app. */
export interface ToolOptions {
  /** How long a call of a tool may take that sets no time of its own. */
  readonly timeoutMs: number
  /** Counts the calls of tools that have a limit. */
  readonly limits: Pick<RateLimits, 'counter'>
}

/** A tool that the model may call. The kernel prepares it at boot, or for one turn when the tool is a client's. */
export interface ToolEntry {
  readonly name: string
  /** The plugin that has the tool; undefined for the tools of the kernel and of a client. */
  readonly record?: PluginRecord
  /** The tool as its plugin declared it. */
  readonly tool?: AnyTool
  /** The sub-agent that a call starts. */
  readonly agent?: string
  /** How the client carries the tool out, and what the tool does there by the client's word; undefined for all other tools. */
  readonly client?: {
    readonly kind: 'browser' | 'action'
    readonly effect: 'read' | 'write'
    /** A call ends the run as waiting, until somebody hands in the client's results. */
    readonly isParked?: boolean
  }
  readonly spec: ToolSpec
  readonly effect: 'read' | 'write'
  /** How long a call may take; undefined for the tools of the kernel and of a client. */
  readonly timeoutMs?: number
  /** What the model is told to do when a call took longer; without it what fits the tool's `effect`. */
  readonly whenLate?: string
  /** Counts a call of a user; throws RATE_LIMITED when it is one too many. */
  readonly count?: (did: string) => Promise<void>
  /** How often a call is tried again that failed for the moment. */
  readonly retry?: number
  /** How much of a result the model reads at once; the usual size without it. */
  readonly maxResultBytes?: number
  /** Whether the results of the tool hold other people's words. */
  readonly foreign: boolean
  /** The tool runs without consent after words of others were read, and the event of the call names these words. */
  readonly saysWhy?: true
  readonly input: Schema
  run(args: unknown, calling: Calling): unknown
  /** Takes up a write that began in a process that died. Only a tool that can do so without writing twice has this. */
  rejoin?(calling: Calling): Promise<unknown>
}

/** Whether a tool changes something, as its owner says; one that is not there any more may have. */
export function writes(entry: ToolEntry | undefined): boolean {
  return (entry?.client?.effect ?? entry?.effect) !== 'read'
}

/** Prepares a tool of the kernel. */
export function kernelEntry(name: string, tool: KernelTool): ToolEntry {
  return {
    name,
    spec: specOf(name, tool),
    effect: tool.effect ?? 'write',
    // What the kernel tells of plugins is bounded by the plugins that there are, and no model could page through it.
    maxResultBytes: 256 * 1024,
    // The results of the kernel's tools are the words of the plugins that the operator installed.
    foreign: false,
    ...(tool.saysWhy && { saysWhy: true }),
    input: tool.input,
    // The schema of the tool has parsed the arguments, so they have the type that its `run` takes.
    run: (args, { turn }) => (tool as KernelTool<unknown>).run(args, turn),
  }
}

/** Prepares a tool that a plugin declared. */
export function pluginEntry(
  name: string,
  tool: AnyTool,
  record: PluginRecord,
  { timeoutMs, limits }: ToolOptions,
): ToolEntry {
  const { limit } = tool
  return {
    name,
    record,
    tool,
    ...(limit && {
      count: limits.counter(`tool:${name}`, limit.max, limit.perMs, `calls of "${name}"`),
    }),
    spec: specOf(name, tool),
    effect: tool.effect ?? 'write',
    // The kernel cannot see where a reading tool has its data from, so it takes the data for words of others.
    foreign: tool.foreign ?? tool.effect === 'read',
    ...(tool.maxResultBytes !== undefined && { maxResultBytes: tool.maxResultBytes }),
    timeoutMs: tool.timeoutMs ?? timeoutMs,
    retry: tool.effect === 'read' ? (tool.retry ?? 1) : 0,
    input: tool.input,
    run: (args, { turn, call: { id }, facts, signal }) =>
      tool.run(args, turnContext(record, turn, { id, facts, signal })),
  }
}

/** A tool as a model reads it. The JSON Schema of the input is made when it is first read, not while the server starts. */
export function specOf(
  name: string,
  { description, input }: { readonly description: string; readonly input: Schema },
): ToolSpec {
  let parameters: ToolSpec['parameters'] | undefined
  return {
    name,
    description,
    get parameters() {
      return (parameters ??= parametersOf(input))
    },
  }
}

/** The JSON Schema of an input without `$schema`, a key that some providers refuse. */
function parametersOf(input: Schema): ToolSpec['parameters'] {
  const { $schema: _, ...parameters } = z.toJSONSchema(input, {
    io: 'input',
    unrepresentable: 'any',
  })
  return parameters
}
