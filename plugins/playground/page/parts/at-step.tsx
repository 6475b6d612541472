import { useState } from 'react'
import { Fault, Json, useHost } from 'oracle-runtime-client/view'

interface Fork {
  readonly sessionId: string
  /** The writes that stay done, though the new chat begins before them. */
  readonly already: readonly { readonly toolName: string; readonly outcome: string }[]
}

/** What can be done at a step of a run: a chat that goes on from there, and a look at what was loaded and kept then. */
export function AtStep(props: { sessionId: string; runId: string; step: number }) {
  const { sessionId, runId, step } = props
  const { ask, session } = useHost()
  const [fork, setFork] = useState<Fork>()
  const [state, setState] = useState<unknown>()
  const [fault, setFault] = useState<unknown>()
  const path = `/sessions/${encodeURIComponent(sessionId)}`
  const forkHere = async () => {
    const made = await ask<Fork>(`${path}/fork`, { body: { run: runId, step } })
    if (made.already.length === 0) session(made.sessionId)
    else setFork(made)
  }
  const look = async () =>
    setState(await ask(`${path}/state?run=${encodeURIComponent(runId)}&step=${step}`))
  const begin = (work: () => Promise<void>) => () => {
    setFault(undefined)
    work().catch(setFault)
  }
  return (
    <>
      <div className="row wrap">
        <button type="button" className="quiet" onClick={begin(forkHere)}>
          Fork from here
        </button>
        <button type="button" className="quiet" onClick={begin(look)}>
          What was loaded and kept
        </button>
      </div>
      <Fault error={fault} />
      {state !== undefined && <Json value={state} label={`State at step ${step}`} />}
      {fork && (
        <div role="status" className="warn">
          <p>
            The new chat begins here, and this stays done:{' '}
            {fork.already.map(({ toolName }) => toolName).join(', ')}.
          </p>
          <button type="button" onClick={() => session(fork.sessionId)}>
            Open the new chat
          </button>
        </div>
      )}
    </>
  )
}
