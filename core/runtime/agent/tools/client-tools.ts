import { z } from 'zod'
import { RuntimeError, type Fault } from '../../../errors.ts'
import { maxDepth } from '../../base/safe-json.ts'
import type { Narrator } from './narrator.ts'
import type { ClientTool, Run, TurnRequest } from '../../turns/run.ts'
import type { Hear } from '../ask/model-call.ts'
import { partialObject } from './partial-json.ts'
import type { ToolEntry } from './entry.ts'
import type { Tools } from './tools.ts'

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

/** What the tools of a client are made of for one turn. */
export interface ClientToolOptions {
  readonly run: Run
  readonly narrator: Narrator
  readonly timeoutMs: number
}

/** The tools of one turn that its client carries out: those of the browser, and AG-UI actions. */
export function clientTools({
  run,
  narrator,
  timeoutMs,
}: ClientToolOptions): Map<string, ToolEntry> {
  const { tools = [], agActions = [] } = run.request
  const entries = new Map<string, ToolEntry>()
  for (const tool of tools) entries.set(tool.name, entryOf(tool, narrator, run, timeoutMs, true))
  for (const action of agActions) {
    const description = action.hasRender
      ? `${action.description} The user sees it drawn in the conversation.`.trim()
      : action.description
    entries.set(action.name, entryOf({ ...action, description }, narrator, run, timeoutMs, false))
  }
  return entries
}

/** How often a client that draws an action hears how its arguments grow. */
const arrivingMs = 100

/** Tells how the arguments of actions grow that the client draws; undefined when it draws none. */
export function arrivingArguments(
  { agActions = [] }: TurnRequest,
  narrator: Narrator,
): Hear['arguments'] {
  const drawn = new Set(agActions.flatMap(({ name, hasRender }) => (hasRender ? [name] : [])))
  if (drawn.size === 0) return undefined
  const told = new Map<string, number>()
  return ({ id, name, args }) => {
    if (!drawn.has(name)) return
    const now = performance.now()
    const last = told.get(id)
    // The first piece starts the clock: what comes at once is not told in pieces.
    if (last === undefined) told.set(id, now)
    if (last === undefined || now - last < arrivingMs) return
    told.set(id, now)
    // What is refused in the end is not read time and again until then.
    if (args.length > argumentBytes) return
    const known = partialObject(args)
    if (known) narrator.arriving(id, name, known)
  }
}

function entryOf(
  { name, description, schema, effect: does = 'write' }: ClientTool,
  narrator: Narrator,
  run: Run,
  timeoutMs: number,
  isBrowserTool: boolean,
): ToolEntry {
  const { $schema: _, ...given } = schema
  return {
    name,
    client: { kind: isBrowserTool ? 'browser' : 'action', effect: does },
    spec: { name, description, parameters: { type: 'object', properties: {}, ...given } },
    // What a page does cannot be undone, and after a crash nobody knows whether it did it.
    effect: 'write',
    // As with a plugin's tools: what only looks may hand over what others wrote, what does something says how it went.
    foreign: does === 'read',
    input: anyArguments,
    run(args, { call }) {
      // Listening comes first: a page may answer before this line is left.
      const answer = run.clientResult(call.id, timeoutMs)
      if (isBrowserTool) narrator.browserToolCall({ id: call.id, name, args })
      else narrator.actionCall({ id: call.id, name, args }, undefined)
      return resultOf(answer)
    },
    // The page may have answered while nobody listened here. It is not asked again.
    rejoin: ({ call }) => resultOf(run.clientResult(call.id, timeoutMs)),
  }
}

async function resultOf(answer: ReturnType<Run['clientResult']>): Promise<unknown> {
  const { result, error } = await answer
  if (error === undefined) return result
  throw new RuntimeError('CLIENT_TOOL_FAILED', `The client could not do it: ${error}`)
}

/** How large the arguments of one call may be, as JSON: as large as a message. */
export const argumentBytes = 256 * 1024

/**
 * Arguments of a client's tool are an object of a bounded size. Whether they fit the schema is for the client to check,
 * which declared it: a schema from outside is never executed here, for one can be made that never ends.
 */
const anyArguments = z.looseObject({}).refine(isWithinSize, {
  error: `expected at most ${argumentBytes} bytes of JSON, nested at most ${maxDepth} levels`,
})

function isWithinSize(args: unknown): boolean {
  return !nestsDeeper(args, maxDepth) && Buffer.byteLength(JSON.stringify(args)) <= argumentBytes
}

/** Looked at before it is written out, which follows every level by calling itself. */
function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((item) => nestsDeeper(item, levels - 1))
}
