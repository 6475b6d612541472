import { z } from 'zod'
import type { AnyTool, Schema, ToolSpec } from '../../../plugin.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type { KernelTool } from '../turn/capabilities.ts'
import { turnContext } from '../turn/turn.ts'
import type { Calling } from './tool-call.ts'

/** A tool the model may call, prepared at boot, or for one turn where it is a client's. */
export interface ToolEntry {
  readonly name: string
  /** Undefined for the kernel's own and for those of a client. */
  readonly record?: PluginRecord
  /** What a plugin declared. */
  readonly tool?: AnyTool
  /** Who carries it out, where that is not us, and what the page says that the tool does there. */
  readonly client?: { readonly kind: 'browser' | 'action'; readonly effect: 'read' | 'write' }
  readonly spec: ToolSpec
  readonly effect: 'read' | 'write'
  /** Its results hold other people's words. */
  readonly foreign: boolean
  /** Where a call of it stands behind such words, its event says so: it runs all the same. */
  readonly saysWhy?: true
  readonly input: Schema
  run(args: unknown, calling: Calling): unknown
  /** Takes up a write that began in a process that died, where that can be done without doing it twice. */
  rejoin?(calling: Calling): Promise<unknown>
}

/** A tool of the kernel's own. */
export function kernelEntry(name: string, tool: KernelTool): ToolEntry {
  return {
    name,
    spec: specOf(name, tool),
    effect: tool.effect ?? 'write',
    // The kernel's tools speak of plugins, in the words of who installed them.
    foreign: false,
    ...(tool.saysWhy && { saysWhy: true }),
    input: tool.input,
    // The schema above has parsed the arguments; the type of each tool is its own knowledge.
    run: (args, { turn }) => (tool as KernelTool<unknown>).run(args, turn),
  }
}

/** A tool that a plugin declared. */
export function pluginEntry(name: string, tool: AnyTool, record: PluginRecord): ToolEntry {
  return {
    name,
    record,
    tool,
    spec: specOf(name, tool),
    effect: tool.effect ?? 'write',
    // Where a reading tool has its data from the kernel cannot see.
    foreign: tool.foreign ?? tool.effect === 'read',
    input: tool.input,
    run: (args, { turn, call, facts }) => tool.run(args, turnContext(record, turn, call.id, facts)),
  }
}

/** A tool as a model reads it. Its schema is written out when somebody first looks, not while the server starts. */
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

/** An input's JSON Schema without the key that some providers refuse. */
function parametersOf(input: Schema): ToolSpec['parameters'] {
  const { $schema: _, ...parameters } = z.toJSONSchema(input, {
    io: 'input',
    unrepresentable: 'any',
  })
  return parameters
}
