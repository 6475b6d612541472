import { Suspense, useRef } from 'react'
import type { ChatAddress } from '../core/client.ts'
import { OracleError } from '../core/error.ts'
import { useCapabilities } from '../react/use-oracle.ts'
import type { Approval } from '../react/use-run.ts'
import type { ArgsFault } from './args-form.tsx'
import { useLook } from './parts.tsx'

/** The props of `Asking`. */
export interface AskingProps {
  readonly address: ChatAddress
  readonly approval: Approval
  readonly isBusy: boolean
  /** Why the last answer was not taken. */
  readonly error: unknown
}

/** What the server found in edited arguments; none where an error is about something else. */
export function faultsIn(error: unknown): readonly ArgsFault[] {
  if (!(error instanceof OracleError) || !Array.isArray(error.details)) return []
  return error.details.filter(
    (one): one is ArgsFault => typeof one?.path === 'string' && typeof one.message === 'string',
  )
}

/** The card of the call that waits. What a person has written in it stays while the server looks at it. */
export function Asking(props: AskingProps) {
  const { pending } = props.approval
  const asked = useRef<string>(undefined)
  if (pending) asked.current = pending.toolCallId
  return asked.current === undefined ? null : <One key={asked.current} {...props} />
}

function One({ address, approval, isBusy, error }: AskingProps) {
  const { oracleDid, sessionId, overrides } = address
  const { components: Parts } = useLook()
  const { plugins } = useCapabilities(oracleDid, { sessionId, overrides })
  const name = approval.pending?.toolName
  const tool = plugins.flatMap(({ tools }) => tools).find((one) => one.name === name)
  return (
    <Suspense>
      <Parts.ApprovalCard
        approval={approval}
        isBusy={isBusy}
        schema={tool?.parameters}
        faults={faultsIn(error)}
      />
    </Suspense>
  )
}
