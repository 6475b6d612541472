import { fromBatch, toBatches, type RunEvent } from '../journal/event-lines.ts'
import { messageOf, timingOf, type StepRow } from '../journal/steps.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { forgetWords } from '../search/tables.ts'
import { takeSession } from '../journal/take-session.ts'
import type { CutMessage } from '../user-message.ts'
import { dropSummaries, rewrite, type Rewritten } from './rewrite.ts'

/** A reply of which its user heard so many characters. */
export interface PartlyHeard {
  readonly did: string
  readonly sessionId: string
  readonly rootId: string
  readonly runId: string
  readonly chars: number
}

/** Where a reply was cut. `messageId` is missing where nothing of the reply is left. */
export interface ReplyCut {
  readonly messageId?: string
  readonly chars: number
}

/** How far around a cut words are looked for: no word of a language is longer. */
const reach = 200
let words: Intl.Segmenter | undefined

/** The length of a text that was heard up to a character: up to the end of the last word that was heard whole. */
export function heardLength(text: string, chars: number): number {
  if (text.slice(Math.max(0, chars)).trim() === '') return text.length
  const from = Math.max(0, chars - reach)
  const near = text.slice(from, chars + reach)
  words ??= new Intl.Segmenter(undefined, { granularity: 'word' })
  const segment = words.segment(near).containing(chars - from)
  return text.slice(0, from + (segment?.index ?? chars - from)).trimEnd().length
}

/** Cuts the reply of a run that has ended. Undefined where the user heard all that is left of the reply. */
export function cutReply(store: RunStore, reply: PartlyHeard): Promise<ReplyCut | undefined> {
  const { did, sessionId, rootId, runId, chars } = reply
  return store.commits.atomic(async (trx) => {
    if (!(await takeSession(trx, sessionId, did))) return undefined
    const turn = await store.stepsOf({ session_id: sessionId, root_id: rootId }, trx)
    const steps = turn.filter((row) => row.run_id === runId)
    const { length, cut, changed } = cutSteps(steps, chars)
    if (changed.length === 0) return undefined
    for (const [row, body] of changed) await rewrite(trx, row, body)
    await dropSummaries(trx, sessionId, steps)
    await cutEvents(trx, runId, length)
    await forgetWords(trx, sessionId)
    await trx
      .updateTable('kernel_sessions')
      .set((eb) => ({ redactions: eb('redactions', '+', 1) }))
      .where('id', '=', sessionId)
      .execute()
    return { ...(cut !== undefined && { messageId: cut }), chars: length }
  })
}

interface CutSteps {
  /** How many characters of the reply are left. */
  readonly length: number
  /** The id of the message that ends there. */
  readonly cut: string | undefined
  readonly changed: readonly (readonly [StepRow, Rewritten])[]
}

/** The rows of a run's messages that end at a character of its text, or stand behind it. */
function cutSteps(steps: readonly StepRow[], chars: number): CutSteps {
  const changed: [StepRow, Rewritten][] = []
  let at = 0
  let cut: string | undefined
  let hasCut = false
  let isAnythingLeft = false
  for (const row of steps) {
    const message = row.kind === 'assistant' ? messageOf(row) : undefined
    if (message?.role !== 'assistant' || 'said' in message) continue
    const {
      content,
      toolCalls = [],
      reasoning: _,
      provider: __,
      cut: wasCut,
      ...rest
    }: CutMessage = message
    const length = hasCut ? 0 : heardLength(content, chars - at)
    if (!hasCut && length === content.length) {
      at += length
      isAnythingLeft = true
      continue
    }
    const isFirst = !hasCut
    hasCut = true
    at += length
    const kept: CutMessage = {
      ...rest,
      content: content.slice(0, length),
      ...(toolCalls.length > 0 && { toolCalls }),
      ...(isFirst && { cut: true }),
    }
    // Of a reply of which nothing was heard there is no message. Its costs stay.
    const stays = toolCalls.length > 0 || (isFirst && (length > 0 || isAnythingLeft))
    if (stays) isAnythingLeft = true
    if (isFirst && stays) cut = message.id
    if (stays && content.length === length && !isFirst && !wasCut) continue
    const note = { ...(message.usage && { usage: message.usage }) }
    changed.push([
      row,
      stays
        ? { kind: 'assistant', body: JSON.stringify({ ...kept, timing: timingOf(row) }) }
        : { kind: 'note', body: JSON.stringify(note) },
    ])
  }
  return { length: at, cut, changed }
}

/** Ends the text in the events of a run at a character. What the model thought behind it is not kept either. */
async function cutEvents(trx: RunDatabase, runId: string, length: number): Promise<void> {
  const rows = await trx
    .selectFrom('kernel_run_events')
    .select('body')
    .where('run_id', '=', runId)
    .orderBy('last_seq')
    .execute()
  await trx.deleteFrom('kernel_run_events').where('run_id', '=', runId).execute()
  const kept: RunEvent[] = []
  let at = 0
  for (const event of rows.flatMap(fromBatch)) {
    if (event.event === 'message') {
      const { content, ...rest }: { content: string } = JSON.parse(event.data)
      const heard = content.slice(0, Math.max(0, length - at))
      at += content.length
      if (heard !== '') kept.push({ ...event, data: JSON.stringify({ content: heard, ...rest }) })
      continue
    }
    // The run changed hands: its readers go back to what was kept.
    if (event.event === 'run') at = JSON.parse(event.data).partialLength ?? at
    if (event.event !== 'reasoning' || at < length) kept.push(event)
  }
  for (const batch of toBatches(kept))
    await trx
      .insertInto('kernel_run_events')
      .values({ run_id: runId, ...batch })
      .execute()
}
