import { RuntimeError } from '../../core/errors.ts'

/** What a check found of one thing. A fault stops a boot or leaves something of the server without work. */
export interface Finding {
  readonly what: string
  readonly state: 'ok' | 'warning' | 'fault'
  readonly says: string
  /** What to do about a fault or a warning. */
  readonly remedy?: string
}

/** Longest text that stands in a line. */
const longest = 600

/** A finding without a complaint. */
export const ok = (what: string, says: string): Finding => ({ what, state: 'ok', says })

/** A finding that leaves the server at work. */
export const warning = (what: string, says: string, remedy: string): Finding => ({
  ...{ what, state: 'warning', remedy },
  says: says.slice(0, longest),
})

/** A finding that stops a boot, or leaves something of the server without work. */
export const fault = (what: string, says: string, remedy: string): Finding => ({
  ...{ what, state: 'fault', remedy },
  says: says.slice(0, longest),
})

/** A fault as the boot would tell it. */
export function faultOf(what: string, error: unknown, remedy = 'See docs/operate.md.'): Finding {
  const hint = error instanceof RuntimeError ? error.hint : undefined
  return fault(what, reasonOf(error), hint ?? remedy)
}

/** The words of an error. A driver that tried several addresses has its words in a list. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '')
    return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return String(error)
  return error.message || error.name
}
