import type { RunUsage, TurnUsage } from '../../../plugin.ts'
import { addedTokens, addedUsage } from './counts.ts'

/** What calls of models cost together, by model. */
export class UsageSum {
  readonly #byModel = new Map<string, RunUsage>()

  /** Adds what calls of one model cost. */
  add(usage: RunUsage): void {
    const { model, calls = 1 } = usage
    const before = this.#byModel.get(model)
    this.#byModel.set(model, {
      model,
      calls: addedTokens(before?.calls ?? 0, calls),
      ...addedUsage(before, usage),
    })
  }

  /** The sums, a line for each model, in the order in which the models were first asked. */
  byModel(): RunUsage[] {
    return [...this.#byModel.values()]
  }

  /** The sum of all; undefined where no model was asked. */
  whole(): TurnUsage | undefined {
    const models = this.byModel()
    let calls = 0
    let sum: ReturnType<typeof addedUsage> | undefined
    for (const { model: _, calls: more = 1, ...usage } of models) {
      calls = addedTokens(calls, more)
      sum = addedUsage(sum, usage)
    }
    return sum && { ...sum, calls, models }
  }
}
