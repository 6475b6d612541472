import { z } from 'zod'
import { RuntimeError, type Fault } from '../../../errors.ts'
import { maxDepth } from '../../base/safe-json.ts'
import type { Narrator } from './narrator.ts'
import type { ClientTool, Run, TurnRequest } from '../../turns/run.ts'
import type { Hear } from '../ask/model-call.ts'
import { partialObject } from './partial-json.ts'
import type { ToolEntry } from './entry.ts'
import { clientResultOf } from '../turn/parked.ts'
import type { Tools } from './tools.ts'

/**
 * One error for all client tools whose names another tool has; undefined when every name is free. The message route asks
 * before a run begins, and the turn asks again.
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
    { hint: 'Give your tools other names, for example with a prefix.', details: faults },
  )
}

/** What the tools of a client need in one turn. */
export interface ClientToolOptions {
  readonly run: Run
  readonly narrator: Narrator
  /** How long the client may take over one call. */
  readonly timeoutMs: number
}

/** The tools of one turn that its client carries out, by name: the tools of the browser, and the AG-UI actions. */
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

/** The least time between two events about the growing arguments of an action. */
const arrivingMs = 100

/** Tells the client how the arguments of the actions grow that it draws; undefined when the client draws none. */
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
    // The first piece only starts the clock: arguments that arrive all at once need no such events.
    if (last === undefined) told.set(id, now)
    if (last === undefined || now - last < arrivingMs) return
    told.set(id, now)
    // The validation will refuse arguments this large, so reading them again with every piece would be wasted work.
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
    client: {
      kind: isBrowserTool ? 'browser' : 'action',
      effect: does,
      isParked: run.request.clientTools === 'park',
    },
    spec: { name, description, parameters: { type: 'object', properties: {}, ...given } },
    // The kernel cannot undo what a page did, and after a crash it cannot know whether the page did it.
    effect: 'write',
    // As with a plugin's tools: a reading tool may return what others wrote, a writing tool says how its work went.
    foreign: does === 'read',
    input: anyArguments,
    run(args, { call }) {
      const tell = () =>
        isBrowserTool
          ? narrator.browserToolCall({ id: call.id, name, args })
          : narrator.actionCall({ id: call.id, name, args }, undefined)
      return resultOf(run.clientResult(call.id, timeoutMs, tell))
    },
    // The page may have answered while no process listened, so this waits for its answer and sends no new event.
    rejoin: ({ call }) => resultOf(run.clientResult(call.id, timeoutMs)),
  }
}

async function resultOf(answer: ReturnType<Run['clientResult']>): Promise<unknown> {
  return clientResultOf(await answer)
}

/** How large the arguments of one call may be, in bytes of JSON: as large as a message. */
const argumentBytes = 256 * 1024

/**
 * The arguments of a tool whose schema is data: an object of a bounded size. Whoever declared the schema checks whether the
 * arguments fit it. The kernel never runs a schema from outside, because somebody can write one whose check never ends.
 */
export const anyArguments = z.looseObject({}).refine(isWithinSize, {
  error: `expected at most ${argumentBytes} bytes of JSON, nested at most ${maxDepth} levels`,
})

function isWithinSize(args: unknown): boolean {
  return !nestsDeeper(args, maxDepth) && Buffer.byteLength(JSON.stringify(args)) <= argumentBytes
}

/** Whether a value nests too deep. It runs before `JSON.stringify`, which calls itself for every level. */
function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((item) => nestsDeeper(item, levels - 1))
}
