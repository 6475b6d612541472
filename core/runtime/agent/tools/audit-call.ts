import { RuntimeError } from '../../../errors.ts'
import { shortened, type AuditLine, type Outcome } from '../../audit/line.ts'
import type { Calling } from './tool-call.ts'

/** Writes an audit line about a tool call. The turn adds the request, the session and the run. */
export type AuditCall = (
  line: Pick<AuditLine, 'who' | 'tool' | 'callId' | 'what' | 'outcome' | 'code'>,
) => Promise<void> | undefined

/**
 * Wraps the core of the onion so that it leaves audit lines: one for every write that was carried out, that was refused,
 * that a person rejected or whose outcome a crash left unknown, and one for a read whose handler adds facts. A call that
 * waits for a person leaves no line, because it did nothing yet.
 */
export function audited(
  execute: (calling: Calling) => Promise<unknown>,
): (calling: Calling) => Promise<unknown> {
  return async (calling) => {
    const { site, entry, facts } = calling
    if (!site.audit) return await execute(calling)
    const isWorthALine = () => entry.effect === 'write' || facts.who || !facts.isEmpty
    try {
      const value = await execute(calling)
      // The line is written before the model, and so anybody else, hears of the result.
      if (isWorthALine()) await tell(calling, 'accepted')
      return value
    } catch (thrown) {
      const { code } = thrown instanceof RuntimeError ? thrown : { code: undefined }
      if (isWorthALine() && !calling.waits) await tell(calling, outcomeOf(calling, thrown), code)
      throw thrown
    }
  }
}

function tell({ call, site, turn, facts }: Calling, outcome: Outcome, code?: string) {
  const decision = site.decisionOn?.(call.id)?.decision
  if (decision) facts.add({ decision })
  const { who = turn.user.did, what } = facts
  return site.audit?.({ who, tool: call.name, callId: shortened(call.id), what, outcome, code })
}

function outcomeOf({ turn, fault }: Calling, thrown: unknown): Outcome {
  const error = thrown instanceof RuntimeError ? thrown : undefined
  if (error?.code === 'REJECTED') return 'rejected'
  if (
    error?.code === 'OUTCOME_UNKNOWN' ||
    error?.code === 'TOOL_TIMEOUT' ||
    turn.signal.aborted ||
    fault
  )
    return 'unknown'
  return error && error.status < 500 ? 'refused' : 'failed'
}
