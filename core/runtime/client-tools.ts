import { z } from 'zod'
import { RuntimeError } from '../errors.ts'
import type { Schema } from '../plugin.ts'
import { schemaFault } from './json-schema.ts'
import type { RunEvents } from './run-events.ts'
import type { ClientTool, RunHandle, TurnRequest } from './run.ts'
import type { ToolEntry, Tools } from './tools.ts'

/** As many as a provider takes beside our own. */
const mostTools = 100
const toolName = /^[A-Za-z0-9_-]{1,64}$/

/**
 * What is wrong with the tools that a client brings along, as one error that names each fault; undefined when
 * all is well. The door asks this before a run begins.
 */
export function clientToolsFault(request: TurnRequest, tools: Tools): RuntimeError | undefined {
  const claims = new Map<string, string>()
  const faults = [...named('tools', request.tools), ...named('agActions', request.agActions)].flatMap(
    ({ at, tool: { name, schema } }) => {
      const fault = (message: string) => ({ path: at, message })
      if (!toolName.test(name))
        return [fault(`"${name}" is no name for a tool: letters, digits, "_" and "-", at most 64`)]
      const owner = tools.entry(name)?.record?.name ?? (tools.entry(name) && 'the kernel')
      if (owner) return [fault(`"${name}" is the name of a tool of ${owner}; give yours another`)]
      const first = claims.get(name)
      if (first) return [fault(`"${name}" stands at ${first} already`)]
      claims.set(name, at)
      const wrong = schemaFault(schema)
      return wrong ? [fault(`the schema of "${name}" is no JSON Schema: ${wrong}`)] : []
    },
  )
  const count = (request.tools?.length ?? 0) + (request.agActions?.length ?? 0)
  if (count > mostTools)
    faults.unshift({ path: 'tools', message: `${count} are too many: at most ${mostTools} in a turn` })
  if (faults.length === 0) return undefined
  return new RuntimeError(
    'INVALID_INPUT',
    `The client's tools cannot be used: ${faults.map(({ message }) => message).join('; ')}.`,
    { details: faults },
  )
}

function named(list: string, tools: readonly ClientTool[] = []) {
  return tools.map((tool, i) => ({ at: `${list}.${i}`, tool }))
}

export interface ClientToolOptions {
  readonly run: RunHandle
  readonly events: RunEvents
  readonly timeoutMs: number
}

/** The tools of one turn that its client carries out: those of the browser, and AG-UI actions. */
export function clientTools({ run, events, timeoutMs }: ClientToolOptions): Map<string, ToolEntry> {
  const { tools = [], agActions = [] } = run.request
  const entries = new Map<string, ToolEntry>()
  for (const tool of tools) entries.set(tool.name, entryOf(tool, events, run, timeoutMs, true))
  for (const action of agActions)
    entries.set(action.name, entryOf(action, events, run, timeoutMs, false))
  return entries
}

function entryOf(
  { name, description, schema }: ClientTool,
  events: RunEvents,
  run: RunHandle,
  timeoutMs: number,
  isBrowserTool: boolean,
): ToolEntry {
  const { $schema: _, ...given } = schema
  return {
    name,
    client: isBrowserTool ? 'browser' : 'action',
    spec: { name, description, parameters: { type: 'object', properties: {}, ...given } },
    // What a page does cannot be undone, and after a crash nobody knows whether it did it.
    effect: 'write',
    // Made when it is called: most of a hundred tools are not.
    get input() {
      return parserOf(given)
    },
    async run(args, { call }) {
      // Listening comes first: a page may answer before this line is left.
      const answer = run.clientResult(call.id, timeoutMs)
      if (isBrowserTool) events.browserToolCall({ id: call.id, name, args })
      const { result, error } = await answer
      if (error === undefined) return result
      throw new RuntimeError('CLIENT_TOOL_FAILED', `The client could not do it: ${error}`)
    },
  }
}

const anyObject = z.looseObject({})

/**
 * Checks what the model sends as far as the schema can be read; the client checks the rest. A pattern is not
 * tried here: one that takes for ever would stop the server for everybody.
 */
function parserOf(schema: Readonly<Record<string, unknown>>): Schema {
  if (Object.keys(schema).length === 0 || JSON.stringify(schema).includes('"pattern'))
    return anyObject
  try {
    return z.fromJSONSchema({ type: 'object', ...schema } as z.core.JSONSchema.JSONSchema)
  } catch {
    return anyObject // sound, but beyond what zod expresses: conditions, references elsewhere
  }
}
