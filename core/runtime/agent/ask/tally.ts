import type { Delta, ModelReply, ModelRequest, ModelUsage } from '../../../plugin.ts'
import { estimatedUsage } from '../../model/estimate.ts'

/** One call of the model itself, as far as it has come. */
interface Counted {
  readonly request: ModelRequest
  /** How many characters the model gave. */
  characters: number
  /** What the provider counted: the newest figures, because some providers send growing ones. */
  reported: ModelUsage | undefined
}

/**
 * Counts what one answer cost. A layer around the model may call it twice, or never. Figures that the provider does not
 * give, and those of a call that was cut off, are estimated.
 */
export class UsageTally {
  readonly #calls: Counted[] = []

  /** Begins to count a call of the model; the function that this returns takes its deltas. */
  call(request: ModelRequest): (delta: Delta) => void {
    const call: Counted = { request, characters: 0, reported: undefined }
    this.#calls.push(call)
    return (delta) => {
      if (delta.type === 'usage') {
        const { inputTokens, outputTokens, estimated } = delta
        call.reported = { inputTokens, outputTokens, ...(estimated && { estimated }) }
      } else if (delta.type === 'tool-call')
        call.characters += (delta.name?.length ?? 0) + (delta.args?.length ?? 0)
      else if (delta.type !== 'provider') call.characters += delta.text.length
    }
  }

  /** What an answer cost. A layer that answered in place of the model says so in its reply, or it cost nothing. */
  ofReply(reply: Pick<ModelReply, 'usage'>): ModelUsage | undefined {
    return this.#calls.length > 0 ? this.#sum(true) : reply.usage
  }

  /**
   * What an answer cost that did not come to its end. A model that failed before its first word is taken to have cost
   * nothing; one that was stopped had read its request.
   */
  ofFailure(isStopped: boolean): ModelUsage | undefined {
    return this.#sum(isStopped)
  }

  #sum(isRead: boolean): ModelUsage | undefined {
    let sum: ModelUsage | undefined
    for (const { request, characters, reported } of this.#calls) {
      if (!reported && characters === 0 && !isRead) continue
      sum = added(sum, reported ?? estimatedUsage(request, characters))
    }
    return sum
  }
}

/** Two figures in one, which is estimated when one of them is. */
const added = (sum: ModelUsage | undefined, more: ModelUsage): ModelUsage => ({
  inputTokens: (sum?.inputTokens ?? 0) + more.inputTokens,
  outputTokens: (sum?.outputTokens ?? 0) + more.outputTokens,
  ...((sum?.estimated || more.estimated) && { estimated: true }),
})
