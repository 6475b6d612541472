import type { Message, RunUsage } from '../../../plugin.ts'
import { UsageSum } from '../../model/usage/usage-sum.ts'
import type { StepsTable } from './tables.ts'
import type { JournalEntry, StepTiming } from '../run.ts'
import type { CutMessage, PluginMessage, UserMessage } from '../user-message.ts'

/** A row of the journal as it is written. */
export type StepRow = Omit<StepsTable, 'created_at'>

/** The run whose journal the rows belong to. */
export interface StepOwner {
  readonly runId: string
  readonly rootId: string
  readonly sessionId: string
  readonly turn: number
  /** The process that writes, by the beginning of its name. */
  readonly by?: string
}

/** How many rows a run may have: positions of one turn end where those of the next begin. */
const rowsPerTurn = 2 ** 20

/** The position of a row in its session. */
export const positionOf = (turn: number, row: number): number => turn * rowsPerTurn + row

/** What a step was beside its messages. */
export type StepNote = Omit<JournalEntry, 'messages' | 'timings'>

/** One step as rows: a row for every message, and a note of what else the step was. */
export function toRows(owner: StepOwner, firstRow: number, entry: JournalEntry): StepRow[] {
  const { messages, timings, ...note } = entry
  const rows: [StepRow['kind'], Kept | StepNote][] = messages.map((message) => [
    note.within ? 'inner' : kindOf(message),
    kept(message, timings, owner.by),
  ])
  const isSummary = note.summary !== undefined && note.within === undefined
  if (Object.values(note).some((value) => value !== undefined))
    rows.push([isSummary ? 'summary' : 'note', note])
  return rows.map(([kind, body], i) => ({
    session_id: owner.sessionId,
    position: positionOf(owner.turn, firstRow + i),
    run_id: owner.runId,
    root_id: owner.rootId,
    step: firstRow,
    kind,
    body: JSON.stringify(body),
  }))
}

function kindOf({ role }: Message): 'user' | 'assistant' | 'tool' {
  if (role === 'system') throw new TypeError('A system message is not part of a conversation.')
  return role
}

type Told = Message | UserMessage | PluginMessage | CutMessage

/** A message as its row keeps it. */
type Kept = Told & { readonly timing?: StepTiming }

/** A message with how long it took, where somebody measured that. */
function kept(message: Message, timings: JournalEntry['timings'], by: string | undefined): Kept {
  const timing = timings && 'id' in message ? timings.get(message.id) : undefined
  return timing ? { ...message, timing: { ...timing, by } } : message
}

/** The message of a row. */
export function messageOf({ body }: Pick<StepRow, 'body'>): Told {
  const { timing: _, ...message }: Kept = JSON.parse(body)
  return message
}

/** How long what a row tells of took; undefined where nobody measured it. */
export function timingOf({ body }: Pick<StepRow, 'body'>): StepTiming | undefined {
  const { timing }: Kept = JSON.parse(body)
  return timing
}

/** Whether a row says what a step was beside its messages. */
export const isNote = ({ kind }: Pick<StepRow, 'kind'>): boolean =>
  kind === 'note' || kind === 'summary'

/** What a note adds to its step. */
export const noteOf = ({ body }: Pick<StepRow, 'body'>): StepNote => JSON.parse(body)

/** The steps of the engine again, from their rows in the order of their positions. */
export function toEntries(rows: readonly StepRow[]): JournalEntry[] {
  const steps = new Map<string, StepRow[]>()
  for (const row of rows) {
    if (row.kind === 'user' || row.kind === 'plugin') continue
    const key = `${row.run_id} ${row.step}`
    const step = steps.get(key)
    if (step) step.push(row)
    else steps.set(key, [row])
  }
  return [...steps.values()].map((step) => {
    const note = step.find(isNote)
    const messages = step.filter((row) => !isNote(row)).map(messageOf)
    return { messages, ...(note && noteOf(note)) }
  })
}

/** What a row says, without where it stands. */
export type StepText = Pick<StepRow, 'kind' | 'body'>

/** What the calls of models cost that the rows tell of. `read` gives the messages of those who have read them before. */
export function spentIn<Row extends StepText>(
  rows: readonly Row[],
  read: (row: Row) => Told | undefined = messageOf,
): UsageSum {
  const sum = new UsageSum()
  for (const row of rows) {
    if (isNote(row)) addSpent(sum, noteOf(row))
    else if (row.kind === 'assistant' || row.kind === 'inner') {
      const message = read(row)
      if (message) addSpent(sum, { messages: [message] })
    }
  }
  return sum
}

/** Adds what the calls of models cost that a step tells of, in its messages or beside them. */
export function addSpent(
  sum: UsageSum,
  step: { readonly messages?: readonly Told[] } & StepNote,
): void {
  for (const message of step.messages ?? [])
    if (message.role === 'assistant' && message.usage) sum.add(message.usage)
  for (const usage of step.usage ? [step.usage].flat() : []) sum.add(usage)
  for (const usage of step.summary?.usage ?? []) sum.add(usage)
}

/** The calls of tools that have no result. */
export function unanswered(rows: readonly StepRow[]): { id: string; name: string }[] {
  const open = new Map<string, string>()
  for (const row of rows) {
    if (row.kind !== 'assistant' && row.kind !== 'tool') continue
    const message = messageOf(row)
    if (message.role === 'assistant')
      for (const { id, name } of message.toolCalls ?? []) open.set(id, name)
    else if (message.role === 'tool') open.delete(message.toolCallId)
  }
  return [...open].map(([id, name]) => ({ id, name }))
}

/** Whether a step says more than what a call of a model cost. */
export const isMoreThanCost = ({ messages, partial, waits }: JournalEntry): boolean =>
  messages.length > 0 || partial === true || waits !== undefined
