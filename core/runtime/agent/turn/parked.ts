import { RuntimeError } from '../../../errors.ts'
import { fieldsIn } from '../../base/fields.ts'
import type { ClientCallAnswer } from '../../../plugin.ts'
import type { Decision, WaitingCall } from '../../turns/run.ts'

/** What the model reads of a call to which its client gave no answer. */
export const noAnswer = 'The client gave no answer.'

/** What a client made of a call; throws where it could not carry the call out. */
export function clientResultOf({ result, error }: Omit<ClientCallAnswer, 'toolCallId'>): unknown {
  if (error === undefined) return result
  throw new RuntimeError('CLIENT_TOOL_FAILED', `The client could not carry out the call: ${error}`)
}

/** Makes the function that finds what was decided about a call: by a person, or by the client whose calls they are. */
export function decisionsOf(
  decided: { readonly waits: WaitingCall; readonly decision: Decision } | undefined,
) {
  return (toolCallId: string): Decision | undefined => {
    if (!decided) return undefined
    const { waits, decision } = decided
    const isMeant =
      waits.toolCallId === toolCallId ||
      (waits.calls ?? []).some((call) => call.toolCallId === toolCallId)
    return isMeant ? decision : undefined
  }
}

/** What a client handed in for a call; undefined where nobody handed in anything, and the run has to wait for it. */
export function handedIn(decision: Decision | undefined, toolCallId: string): unknown {
  if (decision?.decision !== 'results') return undefined
  const answers: readonly unknown[] = Array.isArray(decision.args) ? decision.args : []
  return (
    answers.map(fieldsIn).find((answer) => answer.toolCallId === toolCallId) ?? { error: noAnswer }
  )
}

/**
 * The call at which a run stands still, of those of one step that cannot go on: the first that a person has to approve, before
 * those of the client, which wait together. What a person has approved already goes to the client first.
 */
export function standstill(
  waiting: readonly WaitingCall[],
  isDecided: (toolCallId: string) => boolean,
): WaitingCall | undefined {
  const parked = waiting.filter(({ kind }) => kind === 'client')
  const asked = waiting.find(({ kind }) => kind !== 'client')
  if (asked && !parked.some(({ toolCallId }) => isDecided(toolCallId))) return asked
  const [first] = parked
  const calls = parked.map(({ toolCallId, toolName, args }) => ({ toolCallId, toolName, args }))
  return first && { ...first, calls }
}
