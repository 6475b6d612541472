import type { ModelCall, ModelReply, ModelUsage, RunUsage, TurnUsage } from '../../../plugin.ts'
import { UsageSum } from '../../model/usage/usage-sum.ts'
import type { Answered, TurnWatch } from '../../telemetry/turn-watch.ts'

/** What a turn does with the calls of its models. */
interface CallsOptions {
  /** Whose calls these are. */
  readonly of: Pick<ModelCall, 'did' | 'runId' | 'sessionId'>
  /** What the turn cost before this process carried it. */
  readonly before: UsageSum
  /** Counts and measures what the turn does. */
  readonly watch?: TurnWatch
  /** Tells the plugins of a call that has ended. */
  tell?(call: ModelCall): void
  /** Keeps in the journal what a call cost of which no message tells. */
  keep(usage: RunUsage): void
}

/** What a call says of itself when it has ended. */
type CallFacts = Omit<ModelCall, 'did' | 'runId' | 'sessionId' | 'plugin' | 'kind'>

/** Who makes the calls, where it is not the turn's own loop. */
interface OfWhom {
  readonly kind?: ModelCall['kind']
  readonly plugin?: string
  readonly watch?: TurnWatch
}

/** The calls of models that a turn makes, its sub-agents' and its plugins' among them: what they cost, and who hears of them. */
export class CallsOfTurn {
  readonly #options: CallsOptions
  readonly #sum: UsageSum
  readonly #kind: ModelCall['kind']
  readonly #plugin: string | undefined
  readonly #watch: TurnWatch | undefined

  constructor(
    options: CallsOptions,
    { kind = 'turn', plugin, watch = options.watch }: OfWhom = {},
  ) {
    this.#options = options
    this.#sum = options.before
    this.#kind = kind
    this.#plugin = plugin
    this.#watch = watch
  }

  /** What the turn cost so far; undefined where no model was asked yet. */
  get spent(): TurnUsage | undefined {
    return this.#sum.whole()
  }

  /** The same calls, as others than the turn's own loop make them: a sub-agent of a plugin, a summary. */
  as(kind: ModelCall['kind'], plugin?: string, watch?: TurnWatch): CallsOfTurn {
    return new CallsOfTurn(this.#options, { kind, plugin, watch })
  }

  /** The same calls, as summaries of the conversation make them. */
  ofSummary(): CallsOfTurn {
    const plugin = this.#plugin
    return new CallsOfTurn(this.#options, {
      kind: 'summary',
      watch: this.#watch,
      ...(plugin !== undefined && { plugin }),
    })
  }

  /** Notes a call of the loop that has ended. Its message keeps what it cost. */
  ended(
    { answered, ...facts }: CallFacts & { readonly answered: Answered },
    reply?: () => ModelReply,
  ): void {
    const { of, tell } = this.#options
    const { model, usage } = facts
    if (isSpent(usage)) this.#sum.add({ model, ...usage })
    const plugin = this.#plugin
    this.#watch?.modelCalled({ ...facts, kind: this.#kind }, answered, reply)
    tell?.({ ...of, ...facts, ...(plugin !== undefined && { plugin }), kind: this.#kind })
  }

  /** Notes a call that a plugin made within the turn, of which the plugins hear elsewhere: no message tells of it. */
  aside(call: ModelCall): void {
    const { model, usage } = call
    this.#watch?.modelCalled(call)
    if (!isSpent(usage)) return
    this.#sum.add({ model, ...usage })
    this.#options.keep({ model, ...usage })
  }
}

/** Whether anything was used up: a call that failed before its first word was not. */
const isSpent = ({ inputTokens, outputTokens }: ModelUsage) => inputTokens > 0 || outputTokens > 0
