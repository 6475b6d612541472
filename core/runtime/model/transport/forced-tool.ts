import type { ModelRequest } from '../../../plugin.ts'

/**
 * A request for an object where the server has refused its mode for objects by name: the model has to call a tool whose
 * arguments are the object. Other requests stay as they are.
 */
export function withForcedTool(request: ModelRequest): ModelRequest {
  const { object, ...settings } = request.settings ?? {}
  if (!object) return request
  const { name, schema } = object
  const description = 'Gives the answer. Only what it is called with is read.'
  return {
    ...request,
    tools: [...request.tools, { name, description, parameters: schema }],
    settings: { ...settings, toolChoice: { tool: name } },
  }
}
