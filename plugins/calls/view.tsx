import { useEffect, useRef, useState, type FormEvent } from 'react'
import { createRoot } from 'react-dom/client'
import { OracleClientProvider } from 'oracle-runtime-client'
import {
  useLiveAgent,
  type CallCaption,
  type LiveAgent,
  type LiveCallState,
  type SpeechBy,
} from 'oracle-runtime-client/live-agent'
import type { ShowView, ViewHost } from 'oracle-runtime-client/view'

const show: ShowView = (element, host) => {
  const root = createRoot(element)
  root.render(
    <OracleClientProvider client={host.client}>
      <Call host={host} />
    </OracleClientProvider>,
  )
  return () => root.unmount()
}
export default show

const states: Readonly<Record<LiveCallState, string>> = {
  idle: 'No call.',
  connecting: 'Connecting …',
  listening: 'Listening.',
  thinking: 'Thinking …',
  speaking: 'Speaking.',
  held: 'Paused: you are speaking.',
  waiting: 'Waits for your decision.',
  ended: 'The call is over.',
}

const endings: Readonly<Record<string, string>> = {
  user: 'You hung up.',
  agent: 'The oracle hung up.',
  idle: 'Nobody said a word, so the oracle hung up.',
  limit: 'The time of the call was used up.',
  lost: 'The connection was lost.',
  replaced: 'The call goes on elsewhere.',
  server: 'The server ended the call.',
  session: 'The conversation was deleted.',
}

const proofs = {
  did: 'The key that stands in the oracle’s DID has signed this connection.',
  document: 'A key of the oracle’s DID document has signed this connection.',
  origin:
    'A key that this server names has signed this connection; only the server vouches for it.',
}

/** A call with the oracle: where the sound goes before it, and captions, typed words and decisions in it. */
function Call({ host }: { host: ViewHost }) {
  const agent = useLiveAgent(host.oracleDid)
  const [opening, setOpening] = useState('')
  const session = useRef(host.sessionId)
  const call = async (microphone: boolean, callType: 'audio' | 'video' = 'audio') => {
    setOpening('')
    try {
      session.current ||= (
        await host.ask<{ sessionId: string }>('/sessions', { method: 'POST', body: {} })
      ).sessionId
      await agent.callAgent({
        ...{ callType, microphone },
        ...{ sessionId: session.current, userDid: host.client.wallet.did },
        language: host.locale.slice(0, 2),
        ...(agent.consent !== undefined && { consent: agent.consent }),
      })
    } catch (error) {
      setOpening((error as Error).message)
    }
  }
  const fault = agent.error?.message ?? opening
  const { code } = agent.error ?? {}
  if (code === 'plugin_not_available') return <p role="alert">{fault}</p>
  return (
    <>
      <p className="lead">
        Talk with the oracle. Sound is encrypted between this page and the oracle.
      </p>
      {fault !== '' && <p role="alert">{fault}</p>}
      {agent.sessionStarted ? (
        <UnderWay agent={agent} />
      ) : (
        <Before agent={agent} call={(...how) => void call(...how)} />
      )}
      <Captions captions={agent.captions} isOpen={agent.sessionStarted} />
      {agent.endedBy !== null && !agent.sessionStarted && (
        <p role="status">
          {endings[agent.endedBy] ?? states.ended}{' '}
          {session.current !== '' && (
            <button type="button" className="quiet" onClick={() => host.session(session.current)}>
              Open the conversation
            </button>
          )}
        </p>
      )}
    </>
  )
}

interface BeforeProps {
  readonly agent: LiveAgent
  call(microphone: boolean, callType?: 'audio' | 'video'): void
}

/** Where the sound goes, said before any device is opened. */
function Before({ agent, call }: BeforeProps) {
  const { hearing, voice, consent } = agent
  const [isAllowed, setAllowed] = useState(false)
  if (!hearing || !voice) return agent.error ? null : <p role="status">Asking the oracle …</p>
  const isFree = consent === undefined || isAllowed
  return (
    <section className="card" aria-labelledby="where">
      <h2 id="where">Where the sound goes</h2>
      <ul>
        <li>{heard(hearing)}</li>
        <li>{spoken(voice)}</li>
        <li>Nothing is recorded. The words become messages of your conversation.</li>
      </ul>
      {consent !== undefined && (
        <label className="check">
          <input
            type="checkbox"
            checked={isAllowed}
            onChange={({ target }) => setAllowed(target.checked)}
          />
          I allow that my words or my voice go to{' '}
          {consent.replace('browser', 'the maker of this browser')}.
        </label>
      )}
      <div className="row">
        <button type="button" disabled={!isFree} onClick={() => call(true)}>
          Call
        </button>
        {agent.hasVideo && (
          <button
            type="button"
            className="quiet"
            disabled={!isFree}
            onClick={() => call(true, 'video')}
          >
            Call with camera
          </button>
        )}
        <button type="button" className="quiet" onClick={() => call(false)}>
          Call without a microphone
        </button>
      </div>
    </section>
  )
}

function heard({ by, where, name }: SpeechBy): string {
  if (by === 'typed') return 'Your words are typed: nothing here turns speech into text.'
  if (by === 'browser')
    return where === 'device'
      ? 'This browser turns your speech into text, on this device.'
      : 'This browser turns your speech into text, and may send your voice to its maker for it.'
  if (where === 'server') return `The oracle’s own server turns your speech into text (${name}).`
  return `Your speech goes to ${name}, which turns it into text.`
}

function spoken({ by, where, name }: SpeechBy): string {
  if (by === 'none') return 'The answers are shown as captions: nothing here speaks them.'
  if (by === 'browser') return 'This browser speaks the answers, on this device.'
  if (where === 'server') return `The oracle’s own server speaks the answers (${name}).`
  return `The answers go to ${name}, which speaks them.`
}

function UnderWay({ agent }: { agent: LiveAgent }) {
  const { state, seconds, isMuted, isCameraOn, security, approval, notice } = agent
  const ignore = () => {}
  return (
    <section className="card" aria-labelledby="call">
      <h2 id="call">Call</h2>
      <p>
        <span role="status">{states[state]}</span> <Clock seconds={seconds} />
      </p>
      <Levels agent={agent} />
      <div className="row">
        <button type="button" className="stop" onClick={() => void agent.endCall()}>
          Hang up
        </button>
        <button
          type="button"
          className="quiet"
          aria-pressed={!isMuted}
          onClick={() => void agent.setMuted(!isMuted).catch(ignore)}
        >
          Microphone {isMuted ? 'off' : 'on'}
        </button>
        {isCameraOn !== undefined && agent.hasVideo && (
          <button
            type="button"
            className="quiet"
            aria-pressed={isCameraOn}
            onClick={() => void agent.setCamera(!isCameraOn).catch(ignore)}
          >
            Camera {isCameraOn ? 'on' : 'off'}
          </button>
        )}
        <button
          type="button"
          className="quiet"
          disabled={state !== 'speaking'}
          onClick={agent.interrupt}
        >
          Be quiet
        </button>
      </div>
      {notice && <p role="alert">{notice.text}</p>}
      {approval && (
        <div className="card" role="group" aria-label="Your decision">
          {approval.question && <p dir="auto">{approval.question}</p>}
          <p>
            The oracle would like to use <code>{approval.toolName}</code>:
          </p>
          <pre>{JSON.stringify(approval.args, null, 2)}</pre>
          <div className="row">
            <button type="button" onClick={() => void agent.decide('approve').catch(ignore)}>
              Approve
            </button>
            <button
              type="button"
              className="quiet"
              onClick={() => void agent.decide('reject').catch(ignore)}
            >
              Reject
            </button>
          </div>
        </div>
      )}
      <Typed agent={agent} />
      {agent.hearing && agent.voice && (
        <p className="faint">
          {isMuted ? 'Your microphone is off.' : heard(agent.hearing)} {spoken(agent.voice)}
        </p>
      )}
      {security && (
        <p className="faint">
          {proofs[security.verifiedBy]} Its certificate:{' '}
          <code className="break">{security.fingerprint}</code>
        </p>
      )}
    </section>
  )
}

function Clock({ seconds }: { seconds: number }) {
  const two = (value: number) => String(value).padStart(2, '0')
  return (
    <span className="faint">
      {two(Math.floor(seconds / 60))}:{two(seconds % 60)}
    </span>
  )
}

/** How loud the two are. The meters are changed beside React: a level is nothing to render a page for. */
function Levels({ agent: { levels } }: { agent: LiveAgent }) {
  const you = useRef<HTMLMeterElement>(null)
  const agent = useRef<HTMLMeterElement>(null)
  useEffect(() => {
    const timer = setInterval(() => {
      const now = levels()
      // What is loud for an ear is a small part of what the numbers can hold.
      if (you.current) you.current.value = Math.min(1, now.you * 4)
      if (agent.current) agent.current.value = Math.min(1, now.agent * 4)
    }, 100)
    return () => clearInterval(timer)
  }, [levels])
  return (
    <p className="row">
      <label>
        You <meter ref={you} min={0} max={1} aria-label="How loud you are" />
      </label>
      <label>
        Oracle <meter ref={agent} min={0} max={1} aria-label="How loud the oracle is" />
      </label>
    </p>
  )
}

function Typed({ agent }: { agent: LiveAgent }) {
  const [text, setText] = useState('')
  const send = (event: FormEvent) => {
    event.preventDefault()
    if (text.trim() === '') return
    agent.say(text)
    setText('')
  }
  return (
    <form className="row" onSubmit={send}>
      <label className="field grow">
        Say it in writing
        <input
          value={text}
          autoComplete="off"
          disabled={!agent.isReady}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      <button disabled={!agent.isReady}>Say</button>
    </form>
  )
}

/**
 * What was said. Only whole lines are read out, each of them once. The list is there before its first line: what comes together with
 * its list is not read out.
 */
function Captions({ captions, isOpen }: { captions: readonly CallCaption[]; isOpen: boolean }) {
  if (captions.length === 0 && !isOpen) return null
  const last = captions.at(-1)
  const open = last?.isFinal === false ? last : undefined
  return (
    <section className="card" aria-labelledby="captions">
      <h2 id="captions">Captions</h2>
      <div role="log" aria-labelledby="captions">
        {captions
          .filter(({ isFinal, text }) => isFinal && text.trim() !== '')
          .map(({ id, who, text }) => (
            <p key={`${who} ${id}`}>
              <b>{who === 'you' ? 'You' : 'Oracle'}:</b> <span dir="auto">{text}</span>
            </p>
          ))}
      </div>
      {open && (
        <p aria-hidden="true" className="faint">
          {open.text} …
        </p>
      )}
    </section>
  )
}
