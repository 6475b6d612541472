import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'
import type { Message, Model, ToolCall, ToolSpec } from '../../plugin.ts'
import { asSent, foreignSourceOf } from './turn/consent.ts'
import { fitted } from './ask/history.ts'
import { asTurnError, hearAnswer, type CallModel, type Hear } from './ask/model-call.ts'
import type { Narrator } from './tools/narrator.ts'
import { RunLost, type WaitingCall } from '../turns/run.ts'
import type { StepLog } from './step-log.ts'
import type { CallSite } from './tools/tool-call.ts'
import { explained } from './tools/tool-content.ts'
import type { ToolOutcome, Tools } from './tools/tools.ts'
import type { Turn } from './turn/turn.ts'

/** How often a model is called in one turn. A model that needs more calls goes in circles. */
const mostModelCalls = 25
/** How many calls of one answer are carried out. */
const mostCallsAtOnce = 64
/** A step whose tools are done within this time costs one write to the journal; else its calls are written first. */
const writeLaterMs = 50

/** One loop: a turn's, or that of a sub-agent's task. */
export interface Loop {
  readonly turn: Turn
  readonly model: Model
  /** The system prompt as it is now: a plugin that was loaded adds its lines. */
  readonly system: () => string
  /** The tools as they are now. */
  readonly specs: () => readonly ToolSpec[]
  /** The conversation up to and with the words that began the turn. */
  readonly before: readonly Message[]
  readonly log: StepLog
  readonly tools: Tools
  readonly callModel: CallModel
  readonly site: CallSite
  readonly narrator: Narrator
  /** Hears the model's words. A sub-agent's words are for the model that called it, and no listener hears them. */
  readonly hear: Hear
  /** The call that started a sub-agent; its events carry it. */
  readonly parentEventId?: string
}

/** How a loop ended. */
export type LoopEnd =
  | { readonly status: 'finished'; readonly content: string }
  | { readonly status: 'waiting'; readonly waits: WaitingCall }
  | { readonly status: 'aborted' }
  | { readonly status: 'failed'; readonly error: RuntimeError }

/**
 * Goes round: model, tools, model again, until the model asks for no more tools. Every round depends on the log alone,
 * so a loop that begins with the log of another goes on exactly where the other one was.
 */
export async function goRound(loop: Loop): Promise<LoopEnd> {
  const { log, turn } = loop
  for (;;) {
    const newest = log.messages.at(-1)
    if (newest?.role === 'assistant' && !newest.toolCalls)
      return { status: 'finished', content: newest.content }
    if (turn.signal.aborted) return cutShort(loop)
    if (log.openCalls.length > 0) {
      const waits = await answerCalls(loop)
      if (waits) return { status: 'waiting', waits }
      continue
    }
    if (log.modelCalls >= mostModelCalls) return stopHere(loop)
    const failure = await askModel(loop)
    if (failure) return failure
  }
}

async function askModel(loop: Loop): Promise<LoopEnd | undefined> {
  const { turn, model, log, hear } = loop
  const system = loop.system()
  const tools = loop.specs()
  const { contextWindow } = model
  const since = log.messages.map(asSent)
  const conversation = fitted(loop.before, since, { contextWindow, system, tools })
  const request = {
    messages: [systemMessage(system), ...conversation],
    tools,
    signal: turn.signal,
  }
  turn.consent.asks(loop.parentEventId)
  const { message, fault } = await hearAnswer(loop.callModel, { turn, model, request, hear })
  if (fault) {
    if (message.content !== '') log.add(message)
    if (turn.signal.aborted) return cutShort(loop)
    log.writeSoon({ partial: true })
    return { status: 'failed', error: asTurnError(fault.error) }
  }
  log.add(message)
  if (message.toolCalls) return undefined
  log.writeSoon() // the journal writes the answer together with the end of the run
  if (loop.parentEventId || loop.narrator.spoke || log.spoke) return undefined
  return {
    status: 'failed',
    error: new RuntimeError('MODEL_ANSWER_INVALID', 'The model ended its answer without a word.'),
  }
}

const systems = new Map<string, Message>()

/** The same text is the same object, so that a provider's client can keep its JSON. */
function systemMessage(content: string): Message {
  let message = systems.get(content)
  if (!message) {
    if (systems.size >= 200) systems.clear()
    systems.set(content, (message = { role: 'system', content }))
  }
  return message
}

/** Carries out what the newest answer asks for, all at once. The results stand in the order of the calls. */
async function answerCalls(loop: Loop): Promise<WaitingCall | undefined> {
  const { log, turn, narrator, parentEventId } = loop
  const calls = log.openCalls
  const later = setTimeout(() => log.recorded().catch(() => undefined), writeLaterMs)
  let outcomes: ToolOutcome[]
  try {
    outcomes = await Promise.all(calls.map((call, nth) => answer(loop, call, nth)))
  } finally {
    clearTimeout(later)
  }
  if (turn.signal.reason instanceof RunLost) throw turn.signal.reason
  const waiting = outcomes.find(({ waits }) => waits)?.waits
  for (const [i, call] of calls.entries())
    if (!outcomes[i]!.waits) log.add(asMessage(call, outcomes[i]!))
  if (turn.signal.aborted) return undefined
  if (waiting && !parentEventId) narrator.interrupt(waiting)
  // The model need not wait for the disk: a write asks the log to record its call before the write begins.
  if (waiting) await log.write(parentEventId ? {} : { waits: waiting })
  else log.writeSoon()
  return waiting
}

async function answer(loop: Loop, call: ToolCall, nth: number): Promise<ToolOutcome> {
  const { tools, turn, site, log } = loop
  const isAction = site.clientTools?.get(call.name)?.client?.kind === 'action'
  const tell = isAction ? actionCall : toolCall
  // A client carries an action out as soon as the client hears of it, so the client hears once the arguments are checked.
  if (!isAction) tell(loop, call)
  if (nth >= mostCallsAtOnce) {
    const error = new RuntimeError(
      'TOO_MANY_CALLS',
      `These are more than ${mostCallsAtOnce} calls at once.`,
      { hint: 'Make this call again in your next step.' },
    )
    tell(loop, call, { content: explained(error), error })
    return { content: explained(error), error }
  }
  const outcome = await tools.call(call, turn, { ...site, recorded: () => log.recorded() })
  if (!outcome.waits) {
    tell(loop, call, outcome)
    if (outcome.foreign) turn.consent.read(foreignSourceOf({ name: call.name, ...outcome }))
    site.guard?.note(call.name, call.args, outcome.error !== undefined)
  }
  return outcome
}

function toolCall(
  { narrator, parentEventId, tools, turn }: Loop,
  call: ToolCall,
  outcome?: ToolOutcome,
): void {
  const behind = tools.entry(call.name)?.saysWhy ? turn.consent.behind(parentEventId) : []
  narrator.toolCall(call, outcome && endingOf(outcome), parentEventId, behind)
}

function actionCall({ narrator }: Loop, call: ToolCall, outcome?: ToolOutcome): void {
  narrator.actionCall(call, outcome && endingOf(outcome))
}

const endingOf = ({ content, error }: ToolOutcome) =>
  error ? { error: error.message } : { output: content }

const asMessage = (call: ToolCall, { content, error, foreign }: ToolOutcome): Message => ({
  role: 'tool',
  id: randomUUID(),
  toolCallId: call.id,
  name: call.name,
  content,
  ...(error && { failed: true }),
  ...(foreign && { foreign }),
})

/** The end of a loop that was stopped: what was said stays, and every open call gets a result that says so. */
function cutShort({ turn, log, parentEventId }: Loop): LoopEnd {
  const { reason } = turn.signal
  if (reason instanceof RunLost) throw reason
  for (const call of log.openCalls)
    log.add(
      asMessage(call, {
        content: 'Stopped by the user before it ended; its outcome is unknown.',
        error: new RuntimeError('ABORTED', 'Stopped.'),
      }),
    )
  log.writeSoon(parentEventId ? {} : { partial: true })
  return { status: 'aborted' }
}

/** The end of a model that goes in circles: a plain message, so that the user knows where it stands. */
function stopHere({ log, hear }: Loop): LoopEnd {
  const content = `I stopped here: this took more than ${mostModelCalls} steps. Tell me if I should go on, or ask for a part of it.`
  hear.text(content)
  log.add({ role: 'assistant', id: randomUUID(), content })
  log.writeSoon()
  return { status: 'finished', content }
}
