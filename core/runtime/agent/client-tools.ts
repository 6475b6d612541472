import { z } from 'zod'
import { RuntimeError, type Fault } from '../../errors.ts'
import type { Schema } from '../../plugin.ts'
import type { RunEvents } from '../runs/run-events.ts'
import type { ClientTool, RunHandle, TurnRequest } from '../runs/run.ts'
import type { ToolEntry, Tools } from './tools.ts'

/**
 * What is wrong with the names of the tools that a client brings along, as one error that names each;
 * undefined when all is well. The door asks this before a run begins.
 */
export function clientToolsFault(request: TurnRequest, tools: Tools): RuntimeError | undefined {
  const claims = new Map<string, string>()
  const faults: Fault[] = []
  for (const list of ['tools', 'agActions'] as const)
    for (const [i, { name }] of (request[list] ?? []).entries()) {
      const path = `${list}.${i}.name`
      const ours = tools.entry(name)
      const owner = ours ? (ours.record?.name ?? 'the kernel') : claims.get(name)
      if (owner) faults.push({ path, message: `"${name}" is the name of a tool of ${owner} too` })
      claims.set(name, `your ${list}`)
    }
  if (faults.length === 0) return undefined
  return new RuntimeError(
    'INVALID_INPUT',
    `A model tells tools apart by name alone: ${faults.map(({ message }) => message).join('; ')}.`,
    { hint: 'Give yours another name, a prefix for example.', details: faults },
  )
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
    run(args, { call }) {
      // Listening comes first: a page may answer before this line is left.
      const answer = run.clientResult(call.id, timeoutMs)
      if (isBrowserTool) events.browserToolCall({ id: call.id, name, args })
      return resultOf(answer)
    },
    // The page may have answered while nobody listened here. It is not asked again.
    rejoin: ({ call }) => resultOf(run.clientResult(call.id, timeoutMs)),
  }
}

async function resultOf(answer: ReturnType<RunHandle['clientResult']>): Promise<unknown> {
  const { result, error } = await answer
  if (error === undefined) return result
  throw new RuntimeError('CLIENT_TOOL_FAILED', `The client could not do it: ${error}`)
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
