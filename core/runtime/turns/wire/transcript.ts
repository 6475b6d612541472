import { RuntimeError } from '../../../errors.ts'
import type { EventPart, Message, TurnUsage } from '../../../plugin.ts'
import { fromBatch } from '../journal/event-lines.ts'
import type { RunDatabase, RunStatus, StepsTable } from '../journal/tables.ts'
import { shownPart } from '../shown-part.ts'
import type { CutMessage, UserMessage } from '../user-message.ts'
import type {
  HistoryCall,
  HistoryMessage,
  HistoryPage,
  HistoryRun,
  PageRequest,
  WholeHistory,
} from './history-line.ts'
import { isNote, messageOf, noteOf } from '../journal/steps.ts'

type Row = Pick<StepsTable, 'kind' | 'body' | 'position' | 'created_at' | 'run_id'>

const spoken = ['user', 'assistant'] as const
const allSpoken = [...spoken, 'plugin'] as const
const kindsOf = (origin: PageRequest['origin']) => (origin === 'all' ? allSpoken : spoken)

/** The conversations as their users see them, read from the rows of the journals. */
export class Transcripts {
  readonly #db: RunDatabase

  constructor(db: RunDatabase) {
    this.#db = db
  }

  /** Everything that was said in a session, oldest first. */
  async all(sessionId: string, origin?: 'all'): Promise<WholeHistory> {
    const rows = await this.#rows(sessionId, 0, Infinity)
    const last = rows.findLast(({ kind }) => kindsOf(origin).some((spoken) => spoken === kind))
    const messages = await this.#withRuns(sessionId, toHistory(rows, origin))
    return { messages, ...(last && { cursor: String(last.position) }) }
  }

  async page(
    sessionId: string,
    { limit, before, after, origin }: PageRequest,
  ): Promise<HistoryPage> {
    const forward = after !== undefined && before === undefined
    const cursor = before ?? after
    let query = this.#db
      .selectFrom('kernel_steps')
      .select('position')
      .where('session_id', '=', sessionId)
      .where('kind', 'in', kindsOf(origin))
      .orderBy('position', forward ? 'asc' : 'desc')
      .limit(limit + 1)
    if (cursor !== undefined)
      query = query.where('position', forward ? '>' : '<', toPosition(cursor))
    const found = (await query.execute()).map(({ position }) => position)
    const isMore = found.length > limit
    const positions = found.slice(0, limit).sort((a, b) => a - b)
    const first = positions[0]
    const last = positions.at(-1)
    if (first === undefined || last === undefined)
      return {
        messages: [],
        prevCursor: null,
        nextCursor: null,
        hasOlder: forward,
        hasNewer: before !== undefined,
      }
    // Results and components stand after the message they belong to, before the next one.
    const end = forward ? (isMore ? found[limit] : undefined) : before && toPosition(before)
    const hasOlder = forward ? await this.#any(sessionId, '<', first, origin) : isMore
    const hasNewer = forward
      ? isMore
      : before !== undefined && (await this.#any(sessionId, '>', last, origin))
    const lines = toHistory(await this.#rows(sessionId, first, end || Infinity), origin)
    const kinds = kindsOf(origin)
    const from = hasOlder && (await this.#goesOn(sessionId, lines[0], '<', first, kinds))
    const to = hasNewer && (await this.#goesOn(sessionId, lines.at(-1), '>', last, ['assistant']))
    return {
      messages: await this.#withRuns(sessionId, lines, { from, to }),
      prevCursor: hasOlder ? String(first) : null,
      nextCursor: hasNewer ? String(last) : null,
      hasOlder,
      hasNewer,
      ...(!hasNewer && { cursor: String(last) }),
    }
  }

  /** The last thing that the assistant said in a run. */
  async replyOf(sessionId: string, runId: string): Promise<HistoryMessage | undefined> {
    const rows = await this.#db
      .selectFrom('kernel_steps')
      .select(['kind', 'body', 'position', 'created_at', 'run_id'])
      .where('session_id', '=', sessionId)
      .where('run_id', '=', runId)
      .orderBy('position')
      .execute()
    return toHistory(rows).findLast(({ message }) => message.type === 'ai')?.message
  }

  /** The run of a page's outermost message, where it has messages beyond the page. */
  async #goesOn(
    sessionId: string,
    line: HistoryLine | undefined,
    side: '<' | '>',
    position: number,
    kinds: readonly StepsTable['kind'][],
  ): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('kernel_steps')
      .select('run_id')
      .where('session_id', '=', sessionId)
      .where('run_id', '=', line?.runId ?? '')
      .where('kind', 'in', kinds)
      .where('position', side, position)
      .limit(1)
      .executeTakeFirst()
    return row?.run_id
  }

  /**
   * The messages, with what became of the runs that they belong to. `from` and `to` are the runs that have messages before
   * these and after them.
   */
  async #withRuns(
    sessionId: string,
    lines: readonly HistoryLine[],
    { from, to }: { readonly from?: string | false; readonly to?: string | false } = {},
  ): Promise<HistoryMessage[]> {
    const runs = await this.#runsOf(sessionId, new Set(lines.map(({ runId }) => runId)))
    const first = new Set(from ? [from] : [])
    for (const { runId, message, isSaid } of lines) {
      const run = runs.get(runId)
      if (run && !isSaid && !first.has(runId)) message.run = run.told
      first.add(runId)
    }
    const last = new Set(to ? [to] : [])
    for (const { runId, message } of lines.toReversed()) {
      const ended = runs.get(runId)?.own
      if (message.type !== 'ai' || last.has(runId)) continue
      last.add(runId)
      if (ended === 'aborted' || ended === 'interrupted' || ended === 'failed')
        message.ended = ended
    }
    return lines.map(({ message }) => message)
  }

  /** How these runs of a session stand, by id. */
  async #runsOf(
    sessionId: string,
    ids: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, ToldRun>> {
    const found = new Map<string, ToldRun>()
    if (ids.size === 0) return found
    let runs = this.#db
      .selectFrom('kernel_runs')
      .select(['id', 'root_id', 'status'])
      .where('session_id', '=', sessionId)
    // A page names its runs; a whole conversation may have more than a statement takes.
    if (ids.size <= mostNamed)
      runs = runs.where('root_id', 'in', (named) =>
        named
          .selectFrom('kernel_runs')
          .select('root_id')
          .where('id', 'in', [...ids]),
      )
    const rows = await runs.orderBy('turn').execute()
    const newest = new Map(rows.map((row) => [row.root_id, row]))
    const lastOf = (row: (typeof rows)[number]) =>
      row.status === 'continued' ? (newest.get(row.root_id) ?? row) : row
    const told = rows.filter(({ id }) => ids.has(id))
    const codes = await this.#codesOf(
      told.flatMap(({ id, status }) => (status === 'failed' ? [id] : [])),
    )
    const usages = await this.#usagesOf(told.map((row) => lastOf(row).id))
    for (const row of told) {
      const { id, status: own } = row
      const last = lastOf(row)
      const [code, usage] = [codes.get(id), usages.get(last.id)]
      const run = { runId: id, status: last.status, ...(code && { code }), ...(usage && { usage }) }
      found.set(id, { own, told: run })
    }
    return found
  }

  /** The codes of the errors with which runs failed, as far as their events are kept; of the newest runs alone. */
  async #codesOf(failed: readonly string[]): Promise<ReadonlyMap<string, string>> {
    if (failed.length === 0) return new Map()
    const rows = await this.#db
      .selectFrom('kernel_run_events')
      .select(['run_id', 'body'])
      .where('run_id', 'in', failed.slice(-mostFailed))
      .where('body', 'like', '%\terror\t%')
      .execute()
    return new Map(
      rows.flatMap((row) =>
        fromBatch(row).flatMap(({ event, data }) =>
          event === 'error' ? [[row.run_id, String(JSON.parse(data).code)] as const] : [],
        ),
      ),
    )
  }

  /** What runs have cost, as their last events say it, as far as these are kept; of the newest runs alone. */
  async #usagesOf(runs: readonly string[]): Promise<ReadonlyMap<string, TurnUsage>> {
    if (runs.length === 0) return new Map()
    const rows = await this.#db
      .selectFrom('kernel_runs')
      .innerJoin('kernel_run_events', (join) =>
        join
          .onRef('kernel_run_events.run_id', '=', 'kernel_runs.id')
          .onRef('kernel_run_events.last_seq', '=', 'kernel_runs.last_seq'),
      )
      .select(['run_id', 'body'])
      .where('kernel_runs.id', 'in', runs.slice(-mostTold))
      .execute()
    return new Map(
      rows.flatMap(({ run_id, body }) => {
        const [last] = fromBatch({ body: body.slice(body.lastIndexOf('\n') + 1) })
        const usage: TurnUsage | undefined =
          last?.event === 'done' ? JSON.parse(last.data).usage : undefined
        return usage ? [[run_id, usage] as const] : []
      }),
    )
  }

  #rows(sessionId: string, from: number, before: number): Promise<Row[]> {
    const rows = this.#db
      .selectFrom('kernel_steps')
      .select(['kind', 'body', 'position', 'created_at', 'run_id'])
      .where('session_id', '=', sessionId)
      .where('kind', '<>', 'inner')
      .where('position', '>=', from)
      .orderBy('position')
    return (before === Infinity ? rows : rows.where('position', '<', before)).execute()
  }

  async #any(
    sessionId: string,
    side: '<' | '>',
    position: number,
    origin?: 'all',
  ): Promise<boolean> {
    const row = await this.#db
      .selectFrom('kernel_steps')
      .select('position')
      .where('session_id', '=', sessionId)
      .where('kind', 'in', kindsOf(origin))
      .where('position', side, position)
      .limit(1)
      .executeTakeFirst()
    return row !== undefined
  }
}

/** Of how many failed runs a history says why they failed, and of how many runs what they cost. */
const mostFailed = 100
const mostTold = 100
/** Up to how many runs are named one by one. */
const mostNamed = 500

/** A run's own status, and what its first message says of it. */
interface ToldRun {
  readonly own: RunStatus
  readonly told: HistoryRun
}

/** A message and its run. What a plugin said without a model has a run of its own that nobody follows. */
interface HistoryLine {
  readonly message: HistoryMessage
  readonly runId: string
  readonly isSaid?: boolean
}

/** The calls of histories that are components. On the wire they are calls as any other. */
const shownCalls = new WeakSet<HistoryCall>()

/** Whether a call of a history stands for a component that was shown. */
export const isComponent = (call: HistoryCall): boolean => shownCalls.has(call)

function toPosition(cursor: string): number {
  const position = Number(cursor)
  if (/^\d{1,16}$/.test(cursor) && Number.isSafeInteger(position)) return position
  throw new RuntimeError(
    'BAD_REQUEST',
    `"${cursor.slice(0, 40)}" is not a cursor of this history.`,
    {
      hint: 'Give prevCursor or nextCursor of an earlier page as it stands.',
    },
  )
}

/**
 * Folds rows into messages: results into the call they answer, components beside the call that made them. The words of
 * plugins begin a turn as a user's do, and are left out of the messages unless all are asked for.
 */
function toHistory(rows: readonly Row[], origin?: 'all'): HistoryLine[] {
  const lines: HistoryLine[] = []
  const askedIn = new Map<string, HistoryMessage>()
  /** The assistant's last message of the turn, and what was rendered before there was one. */
  let current: HistoryMessage | undefined
  let early: HistoryCall[] = []
  const rendered = new Map<string, HistoryCall>()
  for (const row of rows) {
    if (row.kind === 'inner') continue
    if (isNote(row)) {
      const { components, partial, waits } = noteOf(row)
      if (waits?.line && current) Object.assign(current, { content: current.content + waits.line })
      if (waits && waits.kind !== 'client') {
        const asked = askedIn.get(waits.toolCallId)?.toolCalls
        const call = asked?.find(({ id }) => id === waits.toolCallId)
        if (call?.status === 'isRunning') call.waits = true
      }
      if (partial && current) current.isComplete = false
      for (const { eventId, toolCallId, name, args } of components ?? []) {
        const call: HistoryCall = { id: eventId, name, args, status: 'done' }
        const shown = rendered.get(eventId)
        if (shown) {
          Object.assign(shown, call)
          continue
        }
        rendered.set(eventId, call)
        shownCalls.add(call)
        const beside = (toolCallId !== undefined && askedIn.get(toolCallId)) || current
        if (beside) (beside.toolCalls ??= []).push(call)
        else early.push(call)
      }
      continue
    }
    const message = messageOf(row)
    if (message.role === 'tool') {
      const asked = askedIn.get(message.toolCallId)?.toolCalls
      const call = asked?.find(({ id }) => id === message.toolCallId)
      if (!call) continue
      call.status = message.failed ? 'error' : 'done'
      call.output = message.content
      delete call.waits
      if (message.parts?.length) call.parts = message.parts.map(shownPart)
    } else if (message.role === 'user') {
      if (row.kind !== 'plugin' || origin === 'all')
        lines.push({ message: toHuman(message, row), runId: row.run_id })
      current = undefined
      early = []
    } else if (message.role === 'assistant' && 'said' in message) {
      // A plugin may speak between two runs of one turn, so what follows does not belong to these words.
      const said = toAi(message, row)
      const { component } = message.said
      if (component) {
        const { eventId: id, name, args } = component
        const call: HistoryCall = { id, name, args, status: 'done' }
        shownCalls.add(call)
        said.toolCalls = [call]
      }
      lines.push({ message: said, runId: row.run_id, isSaid: true })
    } else if (message.role === 'assistant') {
      const { cut }: CutMessage = message
      // Of these words nothing was heard: the reply ends with the message before.
      if (cut && message.content === '' && !message.toolCalls && current) {
        Object.assign(current, unheard)
        continue
      }
      current = toAi(message, row)
      if (cut) Object.assign(current, unheard)
      if (early.length > 0) current.toolCalls = [...early, ...(current.toolCalls ?? [])]
      early = []
      lines.push({ message: current, runId: row.run_id })
      for (const { id } of message.toolCalls ?? []) askedIn.set(id, current)
    }
  }
  return lines
}

/** How a message says that its user heard no more. */
const unheard = { isComplete: false, cut: true } as const

type Said<Role> = Extract<Message, { role: Role }>

function toHuman(
  { id, content, attachments, origin }: UserMessage,
  { created_at }: Row,
): HistoryMessage {
  const createdAt = new Date(created_at).toISOString()
  return { id, type: 'human', content, isComplete: true, createdAt, attachments, origin }
}

function toAi(
  { id, content, reasoning, toolCalls, model, ended }: Said<'assistant'>,
  { created_at }: Row,
): HistoryMessage {
  return {
    id,
    type: 'ai',
    content,
    toolCalls: toolCalls?.map(({ id, name, args }) => ({ id, name, args, status: 'isRunning' })),
    reasoning,
    isComplete: true,
    createdAt: new Date(created_at).toISOString(),
    ...(model !== undefined && { model }),
    ...(ended && !toolCalls && { ended }),
  }
}
