import { randomUUID } from 'node:crypto'
import type { Message, RunUsage } from '../../../plugin.ts'
import type { CarriedRun } from './carried-run.ts'
import type { RunStore } from '../journal/store.ts'
import { unanswered } from '../journal/steps.ts'

/** What the user reads in place of an answer when too many processes had to give the run up. */
export const givenUpNotice =
  'This answer was interrupted: the server stopped several times while it was being written. Please ask again.'

/** What the model reads in place of a result that will not come. */
const lostResult = 'Interrupted: it is not known whether this was done.'

/** How a journal is closed. */
export interface JournalClosing {
  /** What the user reads behind what was said. */
  readonly notice?: string
  /** What the model reads in place of a result that will not come; by default that nobody knows whether the call was done. */
  readonly lost?: string
  /** What an answer cost of which nobody counts any more than the words that were said. */
  usageOf?(run: CarriedRun, said: string): Promise<RunUsage | undefined>
}

/**
 * Brings the journal of a run into order when no engine does: keeps what was said since the last step
 * as it stands, with a notice if there is one, and gives every call of a tool a result.
 */
export async function closeJournal(
  store: RunStore,
  run: CarriedRun,
  { notice, lost = lostResult, usageOf }: JournalClosing = {},
): Promise<void> {
  await run.feed.flush()
  let { said } = await saidSince(store, run.runId)
  const usage = said === '' ? undefined : await usageOf?.(run, said)
  if (notice !== undefined) {
    const content = said === '' ? notice : `\n\n${notice}`
    run.feed.emit('message', { content })
    said += content
  }
  const open = unanswered(await store.stepsOf(run.row))
  const messages: Message[] = open.map(({ id, name }) => ({
    role: 'tool',
    id: randomUUID(),
    toolCallId: id,
    name,
    content: lost,
    failed: true,
  }))
  if (said !== '')
    messages.push({ role: 'assistant', id: randomUUID(), content: said, ...(usage && { usage }) })
  if (messages.length > 0) await run.appendStep({ messages, partial: true })
}

/** The text that readers have seen and the journal has not, and the last event that the journal has. */
export async function saidSince(store: RunStore, runId: string) {
  const row = await store.find(runId)
  const keptSeq = row?.kept_seq ?? 0
  let said = ''
  for (let after = keptSeq; ;) {
    const events = await store.eventsAfter(runId, after)
    const last = events.at(-1)
    if (!last) return { said, keptSeq }
    after = last.id
    for (const { event, data } of events) {
      // The run changed hands at this event, and clients cut off what was said and not kept.
      if (event === 'run') said = ''
      else if (event === 'message') said += JSON.parse(data).content
    }
  }
}
