import { sql } from 'kysely'
import type { Message, RunEnding, RunTool } from '../../../plugin.ts'
import type { Root } from './marks.ts'
import { isNote, messageOf, spentIn, type StepRow } from '../journal/steps.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'

/** How the end of a run is told. */
export interface EndingOptions {
  /** The plugin of a tool. */
  pluginOf(tool: string): string | undefined
  /** The sentences that the kernel says in place of a reply; they are no words of a reply. */
  readonly notices: readonly string[]
  /** Whether the session is being deleted, which ends a run that is under way. */
  readonly isDeleted?: boolean
}

/** What is told of an end, apart from the reply. */
export type EndingFacts = Omit<RunEnding, 'reply' | 'message'>

/**
 * Gathers what is told of the end of a run, from its rows and from its journal. Undefined when the run is not there.
 */
export async function endingOf(
  store: RunStore,
  db: RunDatabase,
  root: Root,
  options: EndingOptions,
): Promise<EndingFacts | undefined> {
  const runs = await db
    .selectFrom('kernel_runs')
    .select(['id', 'did', 'status', 'cause', 'created_at'])
    .select(sql<number>`coalesce(ended_at, ${store.now})`.as('ended_at'))
    .where('session_id', '=', root.session_id)
    .where('root_id', '=', root.root_id)
    .orderBy('turn')
    .execute()
  const first = runs[0]
  const newest = runs.at(-1)
  if (!first || !newest) return undefined
  const { status } = newest
  const isOpen = status === 'queued' || status === 'running' || status === 'waiting'
  if (status === 'continued' || (isOpen && !options.isDeleted))
    throw new Error(`Run ${first.id} has not ended: it is ${status}.`)
  const steps = await store.stepsOf(root, db)
  const { from = 'user', origin, metadata, shared = false } = await askedOf(db, root.root_id)
  const cause = isOpen ? 'deleted' : newest.cause
  return {
    runId: root.root_id,
    sessionId: root.session_id,
    did: first.did,
    status: isOpen ? 'interrupted' : status,
    ...(cause !== null && { cause }),
    from,
    ...(origin !== undefined && { origin }),
    ...(metadata && { metadata }),
    shared,
    said: hasSaid(steps, options.notices) || (isOpen && (await wasTold(db, newest.id))),
    usage: spentIn(steps).byModel(),
    tools: await toolsOf(db, root, steps, options),
    startedAt: new Date(Number(first.created_at)),
    endedAt: new Date(Number(newest.ended_at)),
  }
}

/** What is told of a turn that never began, because somebody stopped it while it waited, or deleted its session. */
export function endingOfWaiting(
  turn: WaitingTurnsTable,
  request: TurnRequest,
  cause: 'stopped' | 'deleted',
): EndingFacts {
  const { id: runId, session_id: sessionId, did, created_at } = turn
  const { from = 'user', origin, metadata, shared = false } = request
  return {
    runId,
    sessionId,
    did,
    status: cause === 'stopped' ? 'aborted' : 'interrupted',
    cause,
    from,
    ...(origin !== undefined && { origin }),
    ...(metadata && { metadata }),
    shared,
    said: false,
    usage: [],
    tools: [],
    startedAt: new Date(Number(created_at)),
    endedAt: new Date(),
  }
}

/** The words of the reply that the user read, one message after the other. */
export async function replyTo(db: RunDatabase, { session_id, root_id }: Root): Promise<string> {
  const rows = await db
    .selectFrom('kernel_steps')
    .select('body')
    .where('session_id', '=', session_id)
    .where('root_id', '=', root_id)
    .where('kind', '=', 'assistant')
    .orderBy('position')
    .execute()
  return rows
    .map((row) => messageOf(row).content)
    .filter((words) => words !== '')
    .join('\n\n')
}

/** The words of the user that began the turn. */
export async function wordsOf(db: RunDatabase, { session_id, root_id }: Root): Promise<string> {
  const row = await db
    .selectFrom('kernel_steps')
    .select('body')
    .where('session_id', '=', session_id)
    .where('root_id', '=', root_id)
    .where('kind', '=', 'user')
    .orderBy('position')
    .limit(1)
    .executeTakeFirst()
  return row ? messageOf(row).content : ''
}

/** The ending, from the text that stands in the row of a session that was deleted. */
export function fromKept(text: string): EndingFacts {
  const facts: Omit<EndingFacts, 'startedAt' | 'endedAt'> & { startedAt: string; endedAt: string } =
    JSON.parse(text)
  return { ...facts, startedAt: new Date(facts.startedAt), endedAt: new Date(facts.endedAt) }
}

async function askedOf(db: RunDatabase, rootId: string): Promise<Partial<TurnRequest>> {
  const row = await db
    .selectFrom('kernel_run_requests')
    .select('request')
    .where('run_id', '=', rootId)
    .executeTakeFirst()
  return row ? JSON.parse(row.request) : {}
}

const hasSaid = (steps: readonly StepRow[], notices: readonly string[]): boolean =>
  steps.some((row) => {
    if (row.kind !== 'assistant') return false
    const { content } = messageOf(row)
    return content !== '' && !notices.includes(content)
  })

/** Whether readers were sent words that stand in no step yet. */
async function wasTold(db: RunDatabase, runId: string): Promise<boolean> {
  const row = await db
    .selectFrom('kernel_run_events')
    .select('run_id')
    .where('run_id', '=', runId)
    .where('body', 'like', '%\tmessage\t%')
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}

/**
 * The calls of the run and of its sub-agents. A write counts as begun from the mark that was set before it; any other call
 * counts by its result. A call without a result was cut off.
 */
async function toolsOf(
  db: RunDatabase,
  { session_id, root_id }: Root,
  steps: readonly StepRow[],
  { pluginOf }: EndingOptions,
): Promise<RunTool[]> {
  const calls = new Map<string, { name: string; outcome: RunTool['outcome'] }>()
  for (const row of steps) if (!isNote(row)) noteCalls(calls, messageOf(row))
  if (calls.size === 0) return []
  const effects = await db
    .selectFrom('kernel_effects')
    .select(['tool_call_id', 'state', 'failed'])
    .where('session_id', '=', session_id)
    .where('root_id', '=', root_id)
    .execute()
  for (const { tool_call_id, state, failed } of effects) {
    const call = calls.get(tool_call_id)
    if (call) call.outcome = state === 'started' ? 'unknown' : failed === 1 ? 'failed' : 'done'
  }
  return [...calls.values()].map(({ name, outcome }) => {
    const plugin = pluginOf(name)
    return { name, ...(plugin !== undefined && { plugin }), outcome }
  })
}

function noteCalls(
  calls: Map<string, { name: string; outcome: RunTool['outcome'] }>,
  message: Message,
): void {
  if (message.role === 'assistant')
    for (const { id, name } of message.toolCalls ?? []) calls.set(id, { name, outcome: 'unknown' })
  else if (message.role === 'tool') {
    const call = calls.get(message.toolCallId)
    if (call) call.outcome = message.failed ? 'failed' : 'done'
  }
}
