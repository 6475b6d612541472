import type { EvaluationSpec } from './definition.ts'
import { Evaluator, Unsettled, type Scope, type Value } from './expression.ts'

/** What rules make of a claim, with what a person reads of why. */
export interface Decision {
  readonly then: 'approve' | 'reject' | 'ask' | 'agent'
  readonly because: string
  /** The number of the rule that decided, from 1; absent where none held. */
  readonly rule?: number
  /** The values that the rules named on the way. */
  readonly values: Readonly<Record<string, Value>>
}

/** Decides by the first rule that holds. A rule that cannot be settled never approves or rejects: a person is asked. */
export function decide(spec: EvaluationSpec, scope: Omit<Scope, 'named'>): Decision {
  const evaluator = new Evaluator({ ...scope, named: spec.values ?? {} })
  const { rules = [], agent, otherwise = agent ? 'agent' : 'ask' } = spec
  for (const [at, { when, then, because }] of rules.entries()) {
    try {
      if (!evaluator.truth(when)) continue
      return { then, because: filled(because, evaluator), rule: at + 1, values: evaluator.worked }
    } catch (error) {
      if (!(error instanceof Unsettled)) throw error
      const why = `Rule ${at + 1} could not be settled: ${error.message}.`
      return { then: 'ask', because: why, rule: at + 1, values: evaluator.worked }
    }
  }
  const because = rules.length > 0 ? 'No rule decided.' : 'The agent evaluates.'
  return { then: otherwise, because, values: evaluator.worked }
}

/** A sentence with the values that it names in braces; what is missing stays as a question mark. */
function filled(sentence: string, evaluator: Evaluator): string {
  return sentence.replace(/\{([A-Za-z@][\w.@-]{0,199})\}/g, (_, name: string) => {
    try {
      const value = evaluator.value({ var: name })
      return typeof value === 'number'
        ? String(Number(value.toPrecision(6)))
        : String(value).slice(0, 200)
    } catch (error) {
      if (error instanceof Unsettled) return '?'
      throw error
    }
  })
}
