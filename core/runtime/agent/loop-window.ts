import type { Log, Message, Model } from '../../plugin.ts'
import { Gauges } from '../model/window/gauges.ts'
import { composeModel, hearAnswer, type CallModel } from './ask/model-call.ts'
import type { StepLog } from './step-log.ts'
import type { Narrator } from './tools/narrator.ts'
import type { Turn } from './turn/turn.ts'
import { Fitting, type Summaries } from './window/fitting.ts'

/** How long a summary may take: a turn waits for it. */
const longestMs = 120_000

/** What an agent lends to its loops so that conversations fit the windows of models. */
export interface WindowParts {
  /** How much each model reads, as far as its calls have shown. */
  readonly gauges: Gauges
  /** Asks a model beside the conversation of a turn, without the layers of plugins. */
  readonly ask: CallModel
  /** Whether older parts of conversations are summarised; otherwise they are left out. */
  readonly summarises: boolean
  /** The model that summarises; without one it is the model of the turn. */
  readonly small: () => Model | undefined
  readonly log: Log
}

/** How an agent makes conversations fit. */
export interface WindowOptions {
  readonly log: Log
  /** How summaries are made; without it there are none. */
  readonly summaries?: { readonly small: () => Model | undefined }
}

/** Makes what an agent lends to its loops. */
export function windowParts({ log, summaries }: WindowOptions): WindowParts {
  const gauges = new Gauges(log)
  return {
    gauges,
    ask: composeModel([], log, gauges),
    summarises: summaries !== undefined,
    small: () => summaries?.small(),
    log,
  }
}

/** The loop whose conversation is to fit. */
export interface OfLoop {
  readonly turn: Turn
  readonly before: readonly Message[]
  readonly log: StepLog
  readonly narrator: Narrator
  /** Whether a tool writes. */
  isWrite(tool: string): boolean
}

/** The conversation of a loop, which is made to fit the window of its model before each call. */
export function fittingOf(parts: WindowParts, loop: OfLoop): Fitting {
  const { before, log, narrator, isWrite } = loop
  return new Fitting({
    before,
    since: log.sent,
    summary: log.summary,
    gauges: parts.gauges,
    ...(parts.summarises && { summaries: summariesOf(parts, loop) }),
    isWrite,
    tell: (shortened) => narrator.context(shortened),
  })
}

function summariesOf({ ask, small, log: lines }: WindowParts, { turn, log }: OfLoop): Summaries {
  return {
    small: small(),
    async ask(model, messages) {
      const signal = AbortSignal.any([turn.signal, AbortSignal.timeout(longestMs)])
      const { message, beside, fault } = await hearAnswer(ask, {
        turn: { ...turn, signal, calls: turn.calls?.ofSummary() },
        model,
        request: { messages, tools: [], signal },
        hear: { text: () => undefined, reasoning: () => undefined },
      })
      const { content: text, usage, model: by = model.id } = message
      const usages = [...beside, ...(usage ? [usage] : [])]
      return { text, model: by, usages, ...(fault && { error: fault.error ?? 'it failed' }) }
    },
    async keep(summary) {
      await log.write({ summary })
      turn.consent.readSummary(summary.foreign)
    },
    spent(usages) {
      log.spend(usages)
      if (usages.length > 0) log.writeSoon()
    },
    failed: (err) =>
      lines.warn(
        { err, requestId: turn.requestId },
        'A conversation could not be summarised: its oldest part is left out of the request',
      ),
  }
}
