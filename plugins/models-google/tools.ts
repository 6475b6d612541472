import { functionTool, toolWriter } from '#core/models'

/** A tool as JSON. The provider takes JSON Schema as it is under this name; under `parameters` it takes a form of its own. */
export const toolJson = toolWriter((tool) => {
  const { name, description, parameters } = functionTool(tool).function
  return { name, description, parametersJsonSchema: parameters }
})
