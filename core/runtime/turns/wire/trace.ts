import { sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type { StepTiming, Takeover } from '../run.ts'
import type { RunDatabase, StepsTable } from '../journal/tables.ts'
import type { RunRow } from '../journal/store.ts'
import {
  type StepNote,
  isNote,
  messageOf,
  noteOf,
  positionOf,
  spentIn,
  timingOf,
} from '../journal/steps.ts'
import { TraceText } from './trace-text.ts'

/** How many rows of a run a trace reads; a run with more says so. */
const mostRows = 5_000

/** One step of a trace: when it began, how long it took, and what it was. */
export interface TraceStep {
  /** When it began, in milliseconds since 1970. */
  readonly at: number
  readonly ms: number
  readonly kind: TraceKind
  /** The call of the sub-agent whose step this is. */
  readonly within?: string
  /** The process that did it, by the beginning of its name. */
  readonly replica?: string
  readonly [fact: string]: unknown
}

type TraceKind =
  | 'request'
  | 'user'
  | 'waiting'
  | 'model'
  | 'tool'
  | 'load'
  | 'state'
  | 'approval'
  | 'component'
  | 'context'
  | 'takeover'
  | 'end'

type Row = StepsTable
type Step = TraceStep

/** What one run of a list took and cost. */
type RunLine = Pick<RunRow, 'id' | 'turn' | 'status' | 'created_at' | 'ended_at' | 'attempts'>

/** What runs did, read from their journals. Nothing is written for it but how long the steps took. */
export class Traces {
  readonly #db: RunDatabase
  readonly #redactOf: (tool: string) => readonly string[] | undefined

  constructor(
    db: RunDatabase,
    redactOf: (tool: string) => readonly string[] | undefined = () => undefined,
  ) {
    this.#db = db
    this.#redactOf = redactOf
  }

  /** The trace of a run, with what came before the approvals that it continues. Without words where `hasText` is false. */
  async of(run: RunRow, hasText: boolean) {
    const { steps, ...trace } = await this.#read(run, hasText)
    return { ...trace, steps: steps.map(({ place: _, ...step }, nth) => ({ step: nth, ...step })) }
  }

  /** The position right behind a step of a trace, by the number of the step; undefined where the trace has no such step. */
  async behind(run: RunRow, nth: number): Promise<number | undefined> {
    const { steps } = await this.#read(run, false)
    if (nth >= steps.length) return undefined
    // What no row of its own tells of stands behind what came before it.
    const place = steps.slice(0, nth + 1).findLast((step) => step.place !== undefined)?.place
    return place === undefined ? positionOf(run.root_turn, 0) : place + 1
  }

  async #read(run: RunRow, hasText: boolean) {
    const [runs, rows, asked] = await Promise.all([
      this.#chain(run),
      this.#rows(run),
      this.#request(run),
    ])
    const text = new TraceText(hasText, this.#redactOf)
    const isCut = rows.length > mostRows
    const read = rows.slice(0, mostRows)
    const steps: Placed[] = [...beginning(runs[0] ?? run, asked)]
    const args = new Map<string, unknown>()
    for (const [nth, part] of runs.entries()) {
      const before = runs[nth - 1]
      if (before) steps.push(decided(before, part))
      steps.push(
        ...stepsOf(
          read.filter(({ run_id }) => run_id === part.id),
          args,
          text,
        ),
      )
    }
    if (run.ended_at !== null && run.status !== 'waiting' && run.status !== 'continued')
      steps.push({
        at: Number(run.ended_at),
        ms: 0,
        kind: 'end',
        status: run.status,
        ...(run.cause && { cause: run.cause }),
      })
    const { cost = null, ...usage } = spentIn(read).whole() ?? {
      inputTokens: 0,
      outputTokens: 0,
      calls: 0,
      models: [],
    }
    return {
      runId: run.id,
      sessionId: run.session_id,
      ...(run.continues !== null && { continues: run.continues }),
      status: run.status,
      startedAt: new Date(Number((runs[0] ?? run).created_at)).toISOString(),
      endedAt: run.ended_at === null ? null : new Date(Number(run.ended_at)).toISOString(),
      usage,
      cost,
      steps,
      ...((isCut || text.isCut) && { cut: true }),
    }
  }

  /** A run, whoever's it is. */
  find(runId: string): Promise<RunRow | undefined> {
    const runs = this.#db.selectFrom('kernel_runs').selectAll().where('id', '=', runId)
    return runs.executeTakeFirst()
  }

  /** A run, whoever's it is, for the operator. */
  async known(runId: string): Promise<RunRow> {
    const run = await this.find(runId)
    if (run) return run
    throw new RuntimeError('NOT_FOUND', `There is no run "${runId}".`)
  }

  /** A page of the runs of a session, the newest first. */
  async list(
    sessionId: string,
    { limit, before }: { readonly limit: number; readonly before?: number },
  ) {
    let query = this.#db
      .selectFrom('kernel_runs')
      .select(['id', 'turn', 'status', 'created_at', 'ended_at', 'attempts'])
      .where('session_id', '=', sessionId)
      .orderBy('turn', 'desc')
      .limit(limit + 1)
    if (before !== undefined) query = query.where('turn', '<', before)
    const found = await query.execute()
    const runs = found.slice(0, limit)
    const [newest, oldest] = [runs[0], runs.at(-1)]
    const rows = newest && oldest ? await this.#between(sessionId, oldest.turn, newest.turn) : []
    return {
      runs: runs.map((run) =>
        runLine(
          run,
          rows.filter(({ run_id }) => run_id === run.id),
        ),
      ),
      nextCursor: found.length > limit && oldest ? String(oldest.turn) : null,
    }
  }

  #chain(run: RunRow): Promise<RunRow[]> {
    return this.#db
      .selectFrom('kernel_runs')
      .selectAll()
      .where('session_id', '=', run.session_id)
      .where('root_id', '=', run.root_id)
      .where('turn', '<=', run.turn)
      .orderBy('turn')
      .execute()
  }

  #rows(run: RunRow): Promise<Row[]> {
    return this.#db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', run.session_id)
      .where('root_id', '=', run.root_id)
      .where('position', '<', positionOf(run.turn + 1, 0))
      .orderBy('position')
      .limit(mostRows + 1)
      .execute()
  }

  /** The rows of neighbouring turns, without the results of tools, which may be large and cost nothing. */
  #between(sessionId: string, from: number, to: number): Promise<Row[]> {
    return this.#db
      .selectFrom('kernel_steps')
      .selectAll()
      .where('session_id', '=', sessionId)
      .where('position', '>=', positionOf(from, 0))
      .where('position', '<', positionOf(to + 1, 0))
      .where('kind', 'in', ['assistant', 'inner', 'note', 'summary'])
      .orderBy('position')
      .limit(mostRows)
      .execute()
  }

  /** What stands of the request beside its words, as long as it is kept. */
  async #request({ root_id }: RunRow): Promise<Asked> {
    const { rows } = await sql<{ request: string }>`select request from kernel_run_requests
      where run_id = ${root_id}`.execute(this.#db)
    return rows[0] ? JSON.parse(rows[0].request) : {}
  }
}

/** A step, and the position of the row that tells of it. */
interface Placed extends Step {
  readonly place?: number
}

interface Asked {
  readonly origin?: string
  readonly from?: string
  readonly waitedMs?: number
}

function* beginning(run: RunRow, { origin, from, waitedMs }: Asked): Generator<Step> {
  const at = Number(run.created_at)
  if (waitedMs !== undefined) yield { at: at - waitedMs, ms: waitedMs, kind: 'waiting' }
  yield {
    at,
    ms: 0,
    kind: 'request',
    requestId: run.request_id,
    source: origin ?? 'http',
    ...(from && { from }),
  }
}

/** The time in which a person was asked, from the end of one run to the beginning of the next. */
function decided(before: RunRow, run: RunRow): Step {
  const at = Number(before.ended_at ?? before.created_at)
  const { decision } = run.decision === null ? { decision: null } : JSON.parse(run.decision)
  return { at, ms: Math.max(0, Number(run.created_at) - at), kind: 'approval', decision }
}

/** The steps that the rows of one run tell of, in the order in which they began. */
function stepsOf(rows: readonly Row[], args: Map<string, unknown>, text: TraceText): Placed[] {
  const within = withinOf(rows)
  const steps: Placed[] = []
  let [entry, entryBegins] = [-1, 0]
  for (const row of rows) {
    if (row.step !== entry) [entry, entryBegins] = [row.step, steps.length]
    const inside = within.get(row.step)
    const place = { place: row.position, ...(inside !== undefined && { within: inside }) }
    const at = Number(row.created_at)
    if (isNote(row)) {
      const note = noteOf(row)
      // What was written together was done by the process that had taken over before. What comes behind a takeover is behind
      // the step before it.
      if (note.takeover) steps.splice(entryBegins, 0, takenOver(note.takeover))
      for (const step of noted(note, at, text)) steps.push({ ...step, ...place })
      continue
    }
    const message = messageOf(row)
    const timing = timed(timingOf(row), at)
    if (message.role === 'user')
      steps.push({ at, ms: 0, kind: 'user', ...place, ...text.words(message.content) })
    if (message.role === 'assistant') {
      for (const call of message.toolCalls ?? []) args.set(call.id, call.args)
      const { model, usage, reasoning, content, toolCalls = [] } = message
      const calls = toolCalls.map(({ id, name }) => ({ id, name }))
      const said = { ...text.words(content), ...(reasoning && text.reasoning(reasoning)) }
      steps.push({ ...timing, kind: 'model', ...place, model, usage, calls, ...said })
    }
    if (message.role === 'tool') {
      const { toolCallId, name, failed, content } = message
      const facts = { tool: name, toolCallId, ...(failed && { failed }) }
      const said = text.call(name, args.get(toolCallId), content)
      steps.push({ ...timing, kind: 'tool', ...place, ...facts, ...said })
    }
  }
  return steps
}

/** The call of the sub-agent that each step belongs to: the notes of its steps say so. */
function withinOf(rows: readonly Row[]): Map<number, string> {
  const found = new Map<number, string>()
  for (const row of rows) {
    const { within }: StepNote = isNote(row) ? noteOf(row) : {}
    if (within !== undefined) found.set(row.step, within)
  }
  return found
}

/** How long a step took. Where nobody measured it, it stands with the time at which it was written. */
function timed(timing: StepTiming | undefined, writtenAt: number) {
  const { at = writtenAt, ms = 0, by, ...more } = timing ?? {}
  return { at, ms, ...(by !== undefined && { replica: by }), ...more }
}

const takenOver = ({ at, by, attempts }: Takeover): Step => ({
  ...{ at, ms: 0, kind: 'takeover', replica: by, attempts },
})

/** What a step was beside its messages. */
function* noted(note: StepNote, at: number, text: TraceText): Generator<Step> {
  const { failures = [], loaded, states, components, summary, waits } = note
  for (const failure of failures) yield { ...timed(failure, at), kind: 'model' }
  if (loaded) yield { at, ms: 0, kind: 'load', loaded }
  if (states) {
    const changed = Object.entries(states).map(([plugin, keys]) => [plugin, Object.keys(keys)])
    yield { at, ms: 0, kind: 'state', changed: Object.fromEntries(changed) }
  }
  for (const { name, toolCallId } of components ?? [])
    yield { at, ms: 0, kind: 'component', name, ...(toolCallId && { toolCallId }) }
  if (summary) yield { at, ms: 0, kind: 'context', model: summary.model, usage: summary.usage }
  if (waits) {
    const { toolCallId, toolName, args } = waits
    yield { at, ms: 0, kind: 'approval', tool: toolName, toolCallId, ...text.call(toolName, args) }
  }
}

function runLine({ id, status, created_at, ended_at, attempts }: RunLine, rows: readonly Row[]) {
  const { calls = 0, ...usage } = spentIn(rows).whole() ?? {}
  const tools: Record<string, number> = {}
  let model: string | undefined
  for (const row of rows) {
    const message = isNote(row) ? undefined : messageOf(row)
    if (message?.role !== 'assistant') continue
    if (row.kind === 'assistant') model = message.model ?? model
    for (const { name } of message.toolCalls ?? []) tools[name] = (tools[name] ?? 0) + 1
  }
  const startedAt = Number(created_at)
  return {
    runId: id,
    status,
    model: model ?? null,
    startedAt: new Date(startedAt).toISOString(),
    ms: ended_at === null ? null : Number(ended_at) - startedAt,
    usage,
    calls,
    tools,
    attempts,
  }
}
