import type { Message, RunEnding, RunTool, RunUsage } from '../../../plugin.ts'
import type { GateQueries, Root } from './queries.ts'
import { isNote, messageOf, spentIn, type StepText } from '../journal/steps.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { TurnRequest } from '../run.ts'
import type { WaitingTurnsTable } from '../waiting-tables.ts'

/** How the end of a run is told. */
export interface EndingOptions {
  /** The plugin of a tool. */
  pluginOf(tool: string): string | undefined
  /** The sentences that the kernel says in place of a reply; they are no words of a reply. */
  readonly notices: readonly string[]
  /** Where the session is being deleted, which ends a run that is under way: what the answers cost that are being given. */
  readonly deleted?: CutAnswers
  /** Takes up what was said, which the journal was read for anyhow. */
  readonly words?: EndingWords
}

/** What an answer cost that its session's deletion cuts off, and the last event of the run that its journal had then. */
export interface CutAnswer {
  readonly keptSeq: number
  readonly usage: RunUsage
}

/** Such answers, by the ids of their runs. */
export type CutAnswers = ReadonlyMap<string, CutAnswer>

/** What was said in a run, where it has been read. */
export interface EndingWords {
  reply?(): string
  message?(): string
}

/** What is told of an end, apart from the reply. */
export type EndingFacts = Omit<RunEnding, 'reply' | 'message'>

/**
 * Gathers what is told of the end of a run, from its rows and from its journal. Undefined when the run is not there.
 */
export async function endingOf(
  queries: GateQueries,
  db: RunDatabase,
  root: Root,
  options: EndingOptions,
): Promise<EndingFacts | undefined> {
  const runs = await queries.runs(db, root)
  const first = runs[0]
  const newest = runs.at(-1)
  if (!first || !newest) return undefined
  const { status } = newest
  const isOpen = status === 'queued' || status === 'running' || status === 'waiting'
  if (status === 'continued' || (isOpen && !options.deleted))
    throw new Error(`Run ${first.id} has not ended: it is ${status}.`)
  const rows = await queries.steps(db, root)
  // Each message is read once, however many want to know something of it.
  const said = new Map(rows.filter((row) => !isNote(row)).map((row) => [row, messageOf(row)]))
  if (options.words) {
    options.words.reply = () => repliesIn(spokenBy(said, 'assistant'))
    options.words.message = () => spokenBy(said, 'user')[0]?.content ?? ''
  }
  const calls = callsIn(said.values())
  if (calls.size > 0 && Number(first.effects) > 0)
    noteEffects(calls, await queries.effects(db, root))
  const { from = 'user', origin, metadata, shared = false } = askedOf(first.request)
  const spent = spentIn(rows, (row) => said.get(row))
  const cut = isOpen ? options.deleted?.get(newest.id) : undefined
  // An answer that has come into the journal meanwhile has told there what it cost.
  if (cut && (await isKeptUntil(db, newest.id, cut.keptSeq))) spent.add(cut.usage)
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
    said: hasSaid(said, options.notices) || (isOpen && (await wasTold(db, newest.id))),
    usage: spent.byModel(),
    tools: toolsOf(calls, options),
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
  return repliesIn(rows.map(messageOf))
}

const repliesIn = (messages: readonly Told[]): string =>
  messages
    .map(({ content }) => content)
    .filter((words) => words !== '')
    .join('\n\n')

const spokenBy = (said: Said, who: 'assistant' | 'user'): Told[] =>
  [...said].filter(([{ kind }]) => kind === who).map(([, message]) => message)

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

const askedOf = (request: string | null): Partial<TurnRequest> =>
  request === null ? {} : JSON.parse(request)

type Told = ReturnType<typeof messageOf>

/** Messages by the rows that they stand in. */
type Said = ReadonlyMap<StepText, Told>

const hasSaid = (said: Said, notices: readonly string[]): boolean =>
  [...said].some(
    ([{ kind }, { content }]) =>
      kind === 'assistant' && content !== '' && !notices.includes(content),
  )

/** Whether this is the last event of the run that its journal has. */
async function isKeptUntil(db: RunDatabase, runId: string, seq: number): Promise<boolean> {
  const row = await db
    .selectFrom('kernel_runs')
    .select('kept_seq')
    .where('id', '=', runId)
    .executeTakeFirst()
  return Number(row?.kept_seq) === seq
}

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

type Calls = Map<string, { readonly name: string; outcome: RunTool['outcome'] }>

/** The calls of the run and of its sub-agents, by their results. A call without a result was cut off. */
function callsIn(messages: Iterable<Message>): Calls {
  const calls: Calls = new Map()
  for (const message of messages) noteCalls(calls, message)
  return calls
}

/** A write counts as begun from the mark that was set before it. */
function noteEffects(calls: Calls, effects: Awaited<ReturnType<GateQueries['effects']>>): void {
  for (const { tool_call_id, state, failed } of effects) {
    const call = calls.get(tool_call_id)
    if (call) call.outcome = state === 'started' ? 'unknown' : failed === 1 ? 'failed' : 'done'
  }
}

const toolsOf = (calls: Calls, { pluginOf }: EndingOptions): RunTool[] =>
  [...calls.values()].map(({ name, outcome }) => {
    const plugin = pluginOf(name)
    return { name, ...(plugin !== undefined && { plugin }), outcome }
  })

function noteCalls(calls: Calls, message: Message): void {
  if (message.role === 'assistant')
    for (const { id, name } of message.toolCalls ?? []) calls.set(id, { name, outcome: 'unknown' })
  else if (message.role === 'tool') {
    const call = calls.get(message.toolCallId)
    if (call) call.outcome = message.failed ? 'failed' : 'done'
  }
}
