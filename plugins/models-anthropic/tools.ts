import { functionTool, toolWriter } from '#core/models'

/** A tool as JSON. */
export const toolJson = toolWriter((tool) => {
  const { name, description, parameters } = functionTool(tool).function
  return { name, description, input_schema: objectSchema(parameters) }
})

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
