import { functionTool, type ToolSpec } from '#core/models'

// Tools are the same from turn to turn, so their JSON is kept.
const known = new WeakMap<ToolSpec, string>()

/** A tool as JSON. The provider takes JSON Schema as it is under this name; under `parameters` it takes a form of its own. */
export function toolJson(tool: ToolSpec): string {
  let json = known.get(tool)
  if (json === undefined) {
    const { name, description, parameters } = functionTool(tool).function
    json = JSON.stringify({ name, description, parametersJsonSchema: parameters })
    known.set(tool, json)
  }
  return json
}
