import { functionTool, type ToolSpec } from '#core/models'

// Tools are the same from turn to turn, so their JSON is kept.
const known = new WeakMap<ToolSpec, string>()

/** A tool as JSON. */
export function toolJson(tool: ToolSpec): string {
  let json = known.get(tool)
  if (json === undefined) known.set(tool, (json = JSON.stringify(declared(tool))))
  return json
}

function declared(tool: ToolSpec): object {
  const { name, description, parameters } = functionTool(tool).function
  return { name, description, input_schema: objectSchema(parameters) }
}

/** The provider takes no alternatives at the root of a schema: their fields stand side by side then, none of them required. */
function objectSchema(schema: Readonly<Record<string, unknown>>): object {
  const { anyOf, oneOf, allOf, ...rest } = schema
  const branches = [anyOf, oneOf, allOf].flatMap((list) => (Array.isArray(list) ? list : []))
  if (branches.length === 0) return { ...rest, type: 'object' }
  const fields: Readonly<Record<string, unknown>>[] = [...branches, rest].map(
    (branch) => branch?.properties ?? {},
  )
  return { ...rest, type: 'object', properties: Object.assign({}, ...fields) }
}
