import { RuntimeError } from '../../../errors.ts'
import type {
  Delta,
  EarlyEnd,
  Model,
  ModelCall,
  ModelReply,
  ModelRequest,
  ModelUsage,
  RunUsage,
} from '../../../plugin.ts'
import { usageOfLengths } from '../../model/estimate.ts'
import { checkedUsage, costOf } from '../../model/usage/counts.ts'
import { UsageSum } from '../../model/usage/usage-sum.ts'
import type { Answered } from '../../telemetry/turn-watch.ts'

/** What a call of a model says of itself when it has ended. */
export interface CallFacts extends Omit<
  ModelCall,
  'did' | 'runId' | 'sessionId' | 'plugin' | 'kind'
> {
  /** What its span says beside that. */
  readonly answered: Answered
}

/** How long a request is, for a provider that counts no tokens. */
export interface RequestSize {
  /** Counts only where the provider did not: what is counted is the whole conversation. */
  readonly bytes: () => number
  /** How many bytes make a token, where that was measured. */
  readonly perToken?: number | undefined
}

/** One call of the model itself, as far as it has come. */
export class CountedCall {
  readonly #model: Model
  readonly #request: ModelRequest
  readonly #tell: (facts: CallFacts) => void
  readonly #began = performance.now()
  readonly #size: RequestSize
  #firstMs: number | undefined
  #attempts = 1
  #host: string | undefined
  #callsTools = false
  #ended: EarlyEnd | undefined
  /** How many characters the model gave. */
  #characters = 0
  /** What the provider counted. */
  #reported: ModelUsage | undefined
  /** What the call cost, once it has ended; undefined inside where it is taken to have cost nothing. */
  #cost: { readonly usage: RunUsage | undefined } | undefined

  constructor(
    model: Model,
    request: ModelRequest,
    tell: (facts: CallFacts) => void,
    size: RequestSize,
  ) {
    this.#size = size
    this.#model = model
    this.#tell = tell
    this.#request = {
      ...request,
      onRetry: (attempt, fault) => {
        this.#attempts = attempt
        request.onRetry?.(attempt, fault)
      },
      onHost: (host) => {
        this.#host = host
        request.onHost?.(host)
      },
    }
  }

  /** What the model is asked: the call counts the attempts by it. */
  get request(): ModelRequest {
    return this.#request
  }

  /** What the call cost; undefined as long as it has not ended, and where it cost nothing. */
  get usage(): RunUsage | undefined {
    return this.#cost?.usage
  }

  /** Counts the next piece of the answer. */
  take(delta: Delta): void {
    if (this.#firstMs === undefined) this.#firstMs = performance.now() - this.#began
    if (delta.type === 'usage') this.#reported = checkedUsage(delta, this.#reported)
    else if (delta.type === 'tool-call') {
      this.#callsTools = true
      this.#characters += (delta.name?.length ?? 0) + (delta.args?.length ?? 0)
    } else if (delta.type === 'ended') this.#ended = delta.by
    else if (delta.type !== 'provider') this.#characters += delta.text.length
  }

  /**
   * Ends the call, and tells what it was, once. A call that failed before its first word is taken to have cost nothing; one
   * that was stopped had its request read.
   */
  end(isStopped = false, failure?: { readonly error: unknown }): void {
    if (this.#cost) return
    const usage = this.#spent(!failure || isStopped)
    const model = this.#model.id
    const priced = usage && { ...usage, cost: costOf(usage, this.#model.price) }
    this.#cost = { usage: priced && { model, ...priced } }
    const code = !failure ? undefined : isStopped ? 'ABORTED' : codeOf(failure.error)
    this.#tell({
      model,
      usage: priced ?? { inputTokens: 0, outputTokens: 0, cost: '0' },
      ms: performance.now() - this.#began,
      ...(this.#firstMs !== undefined && { firstMs: this.#firstMs }),
      attempts: this.#attempts,
      ...(code !== undefined && { code }),
      answered: {
        ...(this.#host !== undefined && { host: this.#host }),
        messages: this.#request.messages,
        ...(!failure && { finish: this.#ended ?? (this.#callsTools ? 'tool_calls' : 'stop') }),
      },
    })
  }

  #spent(isRead: boolean): ModelUsage | undefined {
    if (this.#reported) return this.#reported
    if (this.#characters === 0 && !isRead) return undefined
    return usageOfLengths(this.#size.bytes(), this.#characters, this.#size.perToken)
  }
}

/**
 * Counts what one answer cost. A layer around the model may call it twice, or never, and the models of a chain are asked one
 * after the other. Figures that a provider does not give, and those of a call that was cut off, are estimated.
 */
export class UsageTally {
  readonly #calls: CountedCall[] = []
  readonly #tell: (facts: CallFacts) => void

  constructor(tell: (facts: CallFacts) => void = () => {}) {
    this.#tell = tell
  }

  /** Begins to count a call of a model. */
  begin(model: Model, request: ModelRequest, size: RequestSize): CountedCall {
    const call = new CountedCall(model, request, this.#tell, size)
    this.#calls.push(call)
    return call
  }

  /**
   * What an answer cost, a line for each model that was asked. A layer that answered in place of the model says so in its
   * reply, or it cost nothing.
   */
  ofReply({ usage }: Pick<ModelReply, 'usage'>, asked: Model): RunUsage[] {
    if (this.#calls.length > 0) return this.ofFailure(false)
    const counted = usage && checkedUsage(usage)
    return counted ? [{ model: asked.id, ...counted, cost: costOf(counted, asked.price) }] : []
  }

  /** What an answer cost that did not come to its end. */
  ofFailure(isStopped: boolean): RunUsage[] {
    const sum = new UsageSum()
    for (const call of this.#calls) {
      // A model that does not hear its signal goes on, and nobody listens any more.
      call.end(isStopped, { error: undefined })
      if (call.usage) sum.add(call.usage)
    }
    return sum.byModel()
  }
}

const codeOf = (error: unknown): string =>
  error instanceof RuntimeError ? error.code : 'MODEL_FAILED'
