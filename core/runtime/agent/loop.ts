import { shownPart } from '../turns/shown-part.ts'
import { randomUUID } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'
import type { EarlyEnd, Message, Model, ToolCall, ToolSpec } from '../../plugin.ts'
import { foreignSourceOf } from './turn/consent.ts'
import { fieldsIn } from '../base/fields.ts'
import { bytesByPart } from './ask/bytes-by-part.ts'
import { asReadBy } from './ask/parts.ts'
import { systemMessage, type LoopPrompt } from './ask/prompt.ts'
import { isWordless, withoutWordless, wordlessFault } from './ask/wordless.ts'
import {
  asTurnError,
  hearAnswer,
  isTooLong,
  type CallModel,
  type Hear,
  type HeardAnswer,
} from './ask/model-call.ts'
import { largerMember, Walk } from '../model/chain.ts'
import { knownModel } from '../model/opened-later.ts'
import type { Gauges } from '../model/window/gauges.ts'
import { bytesOfTools, bytesOfWords } from '../model/window/sizes.ts'
import type { Fitting } from './window/fitting.ts'
import type { Narrator } from './tools/narrator.ts'
import { RunLost, type StepTiming, type WaitingCall } from '../turns/run.ts'
import type { StepLog } from './step-log.ts'
import type { Returning } from './tools/sub-agents.ts'
import type { CallSite } from './tools/tool-call.ts'
import { questionOf } from '../turns/waiting/in-words.ts'
import { redacted } from '../turns/wire/trace-text.ts'
import { standstill } from './turn/parked.ts'
import { explained } from './tools/tool-content.ts'
import type { ToolOutcome, Tools } from './tools/tools.ts'
import type { Turn } from './turn/turn.ts'

/** When the tools of a step take longer than this, the journal gets the calls first. A faster step costs one write. */
const writeLaterMs = 50

/** How much one loop does. */
export interface LoopLimits {
  /** How often the loop calls its model. A model that needs more calls goes in circles. */
  readonly modelCalls: number
  /** How many calls of one answer the loop carries out. */
  readonly callsAtOnce: number
}

/** One loop of model and tools: the loop of a turn, or the loop of a sub-agent's task. */
export interface Loop {
  readonly turn: Turn
  readonly model: Model
  readonly prompt: LoopPrompt
  /** Asks plugins for the tools of this user, where the loop has not asked them; undefined when nothing is to be asked. */
  readonly ask?: () => Promise<unknown> | undefined
  /** The tools that the model may call now. */
  readonly specs: () => readonly ToolSpec[]
  /** The conversation up to and with the words that began the turn, and all since then, as far as the model can read it. */
  readonly fitting: Fitting
  /** How much each model reads, as far as its calls have shown. */
  readonly gauges: Gauges
  readonly log: StepLog
  readonly tools: Tools
  readonly callModel: CallModel
  readonly site: CallSite
  readonly limits: LoopLimits
  readonly narrator: Narrator
  /** Hears the model's words. A sub-agent's words are for the model that called it, and no listener hears them. */
  readonly hear: Hear
  /** The id of the call that started this sub-agent. The events of the sub-agent carry the id. */
  readonly parentEventId?: string
  /** Says when the loop of a sub-agent with an `output` is at its end. Any other loop ends by words. */
  readonly ending?: Returning
}

/** How a loop ended. */
export type LoopEnd =
  | { readonly status: 'finished'; readonly content: string; readonly ended?: EarlyEnd }
  | { readonly status: 'waiting'; readonly waits: WaitingCall }
  | { readonly status: 'aborted' }
  | { readonly status: 'failed'; readonly error: RuntimeError }

/**
 * Calls the model, then the tools that the model asked for, then the model again, until the model asks for no more tools.
 * Every round depends on the log alone, so a loop that begins with the log of another loop goes on where that one stopped.
 */
export async function goRound(loop: Loop): Promise<LoopEnd> {
  const { log, turn } = loop
  for (;;) {
    const end = endOf(loop)
    if (end) return end
    const asking = turn.signal.aborted ? undefined : loop.ask?.()
    if (asking) await asking
    if (turn.signal.aborted) return cutShort(loop)
    if (log.openCalls.length > 0) {
      const waits = await answerCalls(loop)
      if (waits) return { status: 'waiting', waits }
      continue
    }
    if (log.modelCalls >= loop.limits.modelCalls) return stopHere(loop)
    const failure = await askModel(loop)
    if (failure) return failure
  }
}

/** How the loop ended, as far as its messages say; undefined when the loop goes on. */
function endOf({ log, ending }: Loop): LoopEnd | undefined {
  if (ending) {
    const judged = log.openCalls.length === 0 ? ending.judge(log.messages) : undefined
    if (judged?.status !== 'told') return judged
    log.add(judged.message)
    return undefined
  }
  const newest = log.messages.at(-1)
  if (newest?.role !== 'assistant' || newest.toolCalls) return undefined
  const { content, ended } = newest
  return { status: 'finished', content, ...(ended && { ended }) }
}

async function askModel(loop: Loop): Promise<LoopEnd | undefined> {
  const { turn, log } = loop
  const system = await loop.prompt.text()
  if (turn.signal.aborted) return cutShort(loop)
  let answer: HeardAnswer
  try {
    answer = await askFitting(loop, system)
  } catch (error) {
    if (turn.signal.aborted) return cutShort(loop)
    if (!isTooLong(error)) throw error
    log.writeSoon({ partial: true })
    return { status: 'failed', error }
  }
  const { message, fault, timing } = answer
  if (fault) {
    // Half an answer of a sub-agent that was stopped is no result, so the process that takes over must not find it.
    const isDropped = loop.parentEventId !== undefined && turn.signal.aborted
    // Where words are kept, their message has the usage; otherwise the step has it.
    const isKept = message.content !== '' && !isDropped
    if (!isKept && message.usage) log.spend([message.usage])
    if (isKept) log.addTimed(message, timing)
    else log.failed(timing)
    if (turn.signal.aborted) return cutShort(loop)
    log.writeSoon({ partial: true })
    return { status: 'failed', error: asTurnError(fault.error) }
  }
  const hasSpoken = log.spoke || (!loop.parentEventId && loop.narrator.spoke)
  if (!hasSpoken && isWordless(message) && log.passesOver(message, timing)) return undefined
  log.addTimed(message, timing)
  if (message.toolCalls) return undefined
  log.writeSoon() // the journal writes the answer together with the end of the run
  if (loop.parentEventId || hasSpoken || log.spoke) return undefined
  return { status: 'failed', error: wordlessFault(message) }
}

/** How often a request that was too long is made shorter and asked again. */
const mostRefusals = 2

/**
 * Asks the model with as much of the conversation as it can read. A request that is refused as too long teaches how much that
 * is, is made shorter and asked again; after two refusals the next model of a chain may have a larger window.
 */
async function askFitting(loop: Loop, system: string): Promise<HeardAnswer> {
  const { turn, model, log, gauges } = loop
  const { files } = turn
  const tools = loop.specs()
  const systemBytes = bytesOfWords(system)
  const beside = systemBytes + bytesOfTools(tools)
  let stayWith = log.answeredBy
  let last: { readonly bytes: number; readonly by: Model; readonly answer: HeardAnswer } | undefined
  for (let refusals = 0; ; refusals++) {
    const made = await fitted(loop, { stayWith, beside, refusals })
    const { reader, messages, bytes, movedTo } = made
    stayWith = movedTo ?? stayWith
    // What cannot be made shorter is refused again: the next of a chain may read it.
    if (last?.by === reader && bytes >= last.bytes) {
      const larger = largerMember(model, reader, 0, gauges.windowOf)
      if (!larger) return last.answer
      stayWith = moved(loop, reader, larger)
      last = undefined
      continue
    }
    const conversation = made.hasParts ? await asReadBy(messages, reader, files) : messages
    const first = systemMessage(system)
    const request = {
      messages: [first, ...withoutWordless(conversation)],
      tools,
      signal: turn.signal,
      ...(files && { file: (id: string) => files.read(id) }),
    }
    turn.consent.asks(loop.parentEventId)
    const fitsAgain = refusals < mostRefusals
    const answer = await hearAnswer(loop.callModel, {
      turn,
      model,
      request,
      hear: loop.hear,
      stayWith,
      sized: { request, model: reader, bytes },
      fitsAgain,
    })
    log.spend(answer.beside)
    if (last?.answer.message.usage) log.spend([last.answer.message.usage])
    const error = answer.fault?.error
    if (!isTooLong(error) || answer.message.content !== '' || turn.signal.aborted) {
      const { timing } = answer
      if (!timing) return answer
      const whole = {
        ...{ system: systemBytes, tools: beside - systemBytes, conversation: bytes - beside },
      }
      const sent = bytesByPart(whole, {
        loop,
        system: first,
        specs: tools,
        messages,
        model: reader,
      })
      return { ...answer, timing: { ...timing, sent } }
    }
    log.failed(answer.timing)
    // A chain may have gone on to another model, which is the one that has refused.
    const by = new Walk(model, answer.message.model, gauges.windowOf).model
    gauges.of(by).refused(error, bytes)
    if (!fitsAgain) return answer
    last = { bytes, by, answer }
    stayWith = by.id
  }
}

/** Tells that another model is asked, because the conversation is too long for the one before. */
function moved({ hear }: Loop, from: Model, to: Model): string {
  hear.instead?.({ model: to.id, instead: from.id, code: 'MODEL_CONTEXT_TOO_LONG' })
  return to.id
}

/** Whom a request is made for. */
interface Reading {
  readonly stayWith: string | undefined
  /** How many bytes stand in the request beside the conversation. */
  readonly beside: number
  readonly refusals: number
}

/** What the model whose turn it is reads: the next one of a chain where the user's words are too long for this one alone. */
async function fitted(loop: Loop, { stayWith, beside, refusals }: Reading) {
  const { turn, model, gauges, fitting } = loop
  let { model: reader } = new Walk(model, stayWith, gauges.windowOf)
  let movedTo: string | undefined
  for (;;) {
    // What a model says of its window is known once it is open; where it cannot be opened, the call tells.
    await knownModel(reader)
    try {
      const { signal } = turn
      return {
        reader,
        movedTo,
        ...(await fitting.fit({ model: reader, beside, refusals, signal })),
      }
    } catch (error) {
      const tokens = isTooLong(error) ? Number(fieldsIn(error.details).tokens) : 0
      const larger = isTooLong(error)
        ? largerMember(model, reader, tokens, gauges.windowOf)
        : undefined
      if (!larger || !isTooLong(error)) throw error
      movedTo = moved(loop, reader, larger)
      reader = larger
    }
  }
}

/** Carries out all open calls of the newest answer at once. The log gets the results in the order of the calls. */
async function answerCalls(loop: Loop): Promise<WaitingCall | undefined> {
  const { log, turn, narrator, parentEventId } = loop
  const calls = log.openCalls
  const later = setTimeout(() => log.recorded().catch(() => undefined), writeLaterMs)
  let outcomes: TimedOutcome[]
  try {
    outcomes = await Promise.all(
      calls.map((call, nth) => timed(loop, () => answer(loop, call, nth))),
    )
  } finally {
    clearTimeout(later)
  }
  if (turn.signal.reason instanceof RunLost) throw turn.signal.reason
  const found = standstill(
    outcomes.flatMap(({ waits }) => waits ?? []),
    (id) => loop.site.decisionOn?.(id) !== undefined,
  )
  for (const [i, call] of calls.entries()) {
    const outcome = outcomes[i]! // one for each call
    if (!outcome.waits) log.addTimed(asMessage(call, outcome), outcome.timing)
  }
  if (turn.signal.aborted) return undefined
  const waiting = found && !parentEventId ? askedInWords(loop, found) : found
  if (waiting && !parentEventId) narrator.interrupt(waiting)
  // The model need not wait for the disk: a tool that writes has its call recorded before it begins.
  if (waiting) await log.write(parentEventId ? {} : { waits: waiting })
  else log.writeSoon()
  return waiting
}

/** A call that waits, asked for in the text of the reply where the turn is one that asks in words. */
function askedInWords({ turn, tools, narrator, hear }: Loop, waits: WaitingCall): WaitingCall {
  if (waits.kind === 'client' || turn.consent.approvals !== 'words') return waits
  const args = redacted(waits.args, tools.entry(waits.toolName)?.tool?.redact)
  const line = questionOf(turn.rootId, { ...waits, args }, turn.consent.language)
  const whole = narrator.spoke ? `\n\n${line}` : line
  hear.text(whole)
  return { ...waits, line: whole }
}

/** The outcome of a call, and how long the call took where the journal keeps that. */
type TimedOutcome = ToolOutcome & { readonly timing?: StepTiming }

async function timed({ turn }: Loop, work: () => Promise<ToolOutcome>): Promise<TimedOutcome> {
  if (!turn.watch?.traces) return work()
  const at = Date.now()
  const began = performance.now()
  const outcome = await work()
  const ms = Math.round((performance.now() - began) * 10) / 10
  return { ...outcome, timing: { at, ms } }
}

async function answer(loop: Loop, call: ToolCall, nth: number): Promise<ToolOutcome> {
  const { tools, turn, site, log, limits } = loop
  const isAction = site.turnTools?.get(call.name)?.client?.kind === 'action'
  const tell = isAction ? actionCall : toolCall
  // A client carries out an action as soon as the client hears of it, so its event goes out after the arguments are checked.
  if (!isAction) tell(loop, call)
  if (nth >= limits.callsAtOnce) {
    const error = new RuntimeError(
      'TOO_MANY_CALLS',
      `Your answer has more than ${limits.callsAtOnce} calls at once.`,
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

const endingOf = ({ content, parts, error }: ToolOutcome) =>
  error ? { error: error.message } : { output: content, parts: parts?.map(shownPart) }

const asMessage = (
  call: ToolCall,
  { content, parts, error, foreign }: ToolOutcome,
): Extract<Message, { role: 'tool' }> => ({
  role: 'tool',
  id: randomUUID(),
  toolCallId: call.id,
  name: call.name,
  content,
  ...(parts?.length && { parts }),
  ...(error && { failed: true }),
  ...(foreign && { foreign }),
})

/** Ends a loop that was stopped. What the model said stays, and every open call gets a result that says it was stopped. */
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

/** Ends the loop of a model that goes in circles with a plain message, so that the user knows why nothing more happens. */
function stopHere({ log, hear, limits, ending }: Loop): LoopEnd {
  if (ending) return ending.outOfCalls(limits.modelCalls)
  const content = `I stopped here: this took more than ${limits.modelCalls} steps. Tell me if I should go on, or ask for a part of it.`
  hear.text(content)
  log.add({ role: 'assistant', id: randomUUID(), content })
  log.writeSoon()
  return { status: 'finished', content }
}
