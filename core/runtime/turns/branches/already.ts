import type { RunDatabase } from '../journal/tables.ts'
import { messageOf, positionOf, type StepRow } from '../journal/steps.ts'
import { turnOf } from './place.ts'

/** A write that happened behind the place where a conversation branches off, and stays happened. */
export interface CarriedOut {
  readonly toolName: string
  readonly args: unknown
  readonly at: string
  /** `unknown`: it was begun, and nobody knows whether it came to its end. */
  readonly outcome: 'done' | 'unknown'
}

/** What the list of writes needs to know of tools. */
export interface ToolFacts {
  /** Whether a tool changes something outside of the conversation. */
  isWrite(tool: string): boolean
  /** The arguments of a call as they may be shown. */
  shown(tool: string, args: unknown): unknown
}

/** How many rows behind the place are looked through, and how many writes are named. */
const [mostRows, mostNamed] = [20_000, 50]

/** The writes that were carried out in a session at or after a position, oldest first; the newest where they are many. */
export async function carriedOutAfter(
  db: RunDatabase,
  sessionId: string,
  from: number,
  facts: ToolFacts,
): Promise<CarriedOut[]> {
  const rows = await db
    .selectFrom('kernel_steps')
    .select(['body', 'created_at', 'position', 'root_id'])
    .where('session_id', '=', sessionId)
    // The call of a result behind the place may stand before it.
    .where('position', '>=', positionOf(turnOf(from), 0))
    .where('kind', 'in', ['assistant', 'tool', 'inner'])
    .orderBy('position', 'desc')
    .limit(mostRows)
    .execute()
  const effects = await db
    .selectFrom('kernel_effects')
    .select(['root_id', 'tool_call_id', 'state'])
    .where('session_id', '=', sessionId)
    .where('failed', '=', 0)
    .execute()
  const states = new Map(
    effects.map(({ root_id, tool_call_id, state }) => [`${root_id} ${tool_call_id}`, state]),
  )
  return [...collected(rows.reverse(), from, facts, states)].slice(-mostNamed)
}

type Row = Pick<StepRow, 'body' | 'root_id' | 'position'> & { readonly created_at: number }

function* collected(
  rows: readonly Row[],
  from: number,
  { isWrite, shown }: ToolFacts,
  states: ReadonlyMap<string, 'started' | 'done'>,
): Generator<CarriedOut> {
  const asked = new Map<string, { name: string; args: unknown; at: number; root: string }>()
  for (const { body, created_at, root_id, position } of rows) {
    const message = messageOf({ body })
    const at = Number(created_at)
    if (message.role === 'assistant')
      for (const { id, name, args } of message.toolCalls ?? [])
        if (isWrite(name)) asked.set(id, { name, args, at, root: root_id })
    if (message.role !== 'tool') continue
    const { toolCallId, name, failed } = message
    const call = asked.get(toolCallId)
    asked.delete(toolCallId)
    if (failed || !isWrite(name) || Number(position) < from) continue
    yield lineOf(name, shown(name, call?.args), at, 'done')
  }
  // What a run under way has carried out stands in its steps a moment later.
  for (const [id, { name, args, at, root }] of asked) {
    const state = states.get(`${root} ${id}`)
    if (state) yield lineOf(name, shown(name, args), at, state === 'done' ? 'done' : 'unknown')
  }
}

const lineOf = (
  toolName: string,
  args: unknown,
  at: number,
  outcome: CarriedOut['outcome'],
): CarriedOut => ({ toolName, args, at: new Date(at).toISOString(), outcome })

/** How much of a call's arguments the model of the branch reads. */
const mostOfArguments = 500

/** What the model of a branch is told of the writes that stay happened. */
export function toldOf(writes: readonly CarriedOut[]): string {
  const calls = writes.map(({ toolName, args, outcome }) => {
    const text = (JSON.stringify(args) ?? '').slice(0, mostOfArguments).toWellFormed()
    return `${toolName}(${text})${outcome === 'unknown' ? ', of which the outcome is unknown' : ''}`
  })
  return `[Already carried out in another branch: ${calls.join('; ')}. Do not repeat it unasked.]`
}
