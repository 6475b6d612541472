import { useLiveAgent } from 'oracle-runtime-client/live-agent'
import type { Overrides } from 'oracle-runtime-client'

interface CallProps {
  readonly oracleDid: string
  readonly overrides: Overrides
  readonly sessionId: string
  readonly userDid: string
}

/** A button that calls the oracle in the session of the chat, and what is said while the call lasts. */
export function Call({ oracleDid, overrides, sessionId, userDid }: CallProps) {
  const agent = useLiveAgent(oracleDid, undefined, undefined, undefined, overrides)
  const { hearing, voice, consent, error } = agent
  // What hears and speaks is known before there is a button.
  if (!hearing || !voice) return error && <p role="alert">{error.message}</p>
  if (agent.sessionStarted)
    return (
      <section aria-label="Call">
        <span role="status">{agent.state}</span>
        <button type="button" onClick={() => void agent.endCall()}>
          Hang up
        </button>
        {agent.captions.slice(-2).map(({ id, who, text }) => (
          <p key={`${who} ${id}`}>
            {who}: {text}
          </p>
        ))}
        {agent.approval && (
          <button type="button" onClick={() => void agent.decide('approve')}>
            Let it use {agent.approval.toolName}
          </button>
        )}
      </section>
    )
  const call = () => {
    // Where sound or words leave the device and the server, the person is asked by name.
    if (consent && !confirm(`Sound or words go to ${consent}. Call?`)) return
    const options = { callType: 'audio', sessionId, userDid, consent } as const
    agent.callAgent(options).catch(() => {}) // `error` says why
  }
  return (
    <p>
      <button type="button" title={`Hears: ${hearing.name}. Speaks: ${voice.name}.`} onClick={call}>
        Call
      </button>
      {error && <span role="alert">{error.message}</span>}
    </p>
  )
}
