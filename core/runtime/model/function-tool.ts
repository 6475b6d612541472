import type { ToolSpec } from '../../plugin.ts'

/** A tool as a JSON function, in the form that most providers take; without `$schema`, which some refuse. */
export function functionTool({ name, description, parameters }: ToolSpec) {
  const { $schema: _, ...schema } = parameters
  return { type: 'function' as const, function: { name, description, parameters: schema } }
}
