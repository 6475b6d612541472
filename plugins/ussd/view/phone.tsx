import { useEffect, useRef, useState } from 'react'
import { answer, Fault, Json, TextField, useHost } from 'oracle-runtime-client/view'
import { septetsOf } from './septets.ts'

const keys = ['1', '2', '3', '4', '5', '6', '7', '8', '9', '*', '0', '#'] as const

interface Call {
  readonly sessionId: string
  readonly text: string
  readonly screen: string
  readonly isOpen: boolean
  readonly since: number
  readonly ms: number
}

/**
 * A phone with a small text screen, and the gateway's record of its call. Most of the function's length is the markup of
 * the screen, the keys and the record.
 */
export function PhoneView() {
  const host = useHost()
  const [number, setNumber] = useState('+254711000111')
  const [code, setCode] = useState('*384#')
  const [call, setCall] = useState<Call>()
  const [typed, setTyped] = useState('')
  const [fault, setFault] = useState<unknown>()
  const [busy, setBusy] = useState(false)
  const [record, setRecord] = useState<unknown>()
  const seconds = useSeconds(call?.isOpen ? call.since : undefined)
  const field = useRef<HTMLInputElement>(null)

  async function send(sessionId: string, text: string, since: number) {
    setBusy(true)
    setFault(undefined)
    setTyped('')
    const begun = performance.now()
    try {
      const response = await answer(host, '/api/ussd', {
        body: { sessionId, serviceCode: code, phoneNumber: number, text },
      })
      const said = await response.text()
      if (!response.ok) throw new Error(`The gateway answered ${response.status}: ${said}`)
      const isOpen = said.startsWith('CON ')
      setCall({
        sessionId,
        text,
        screen: said.slice(4),
        isOpen,
        since,
        ms: performance.now() - begun,
      })
      void look(sessionId)
    } catch (error) {
      setFault(error)
    } finally {
      setBusy(false)
      field.current?.focus({ preventScroll: true })
    }
  }

  /** Reads the gateway's record of the call. The call does not wait for it. */
  async function look(sessionId: string) {
    try {
      const known = await answer(host, `/api/ussd/debug/${encodeURIComponent(sessionId)}`)
      setRecord(await known.json())
    } catch (error) {
      setRecord(String(error))
    }
  }

  const dial = () => void send(crypto.randomUUID(), '', Date.now())
  const reply = () => {
    if (!call?.isOpen) return
    void send(call.sessionId, call.text === '' ? typed : `${call.text}*${typed}`, call.since)
  }

  return (
    <>
      <p className="lead">
        Dial, read, answer with a digit: every input is one request, as a telecom gateway sends it.
      </p>
      <div className="columns">
        <section className="card phone" aria-label="Phone">
          <div className="row">
            <TextField label="Number" value={number} onChange={setNumber} />
            <TextField label="Code" value={code} onChange={setCode} />
          </div>
          <div className="handset">
            <div className="screen" role="log" aria-label="Screen" aria-live="polite" tabIndex={0}>
              {call ? call.screen : 'Press Dial.'}
            </div>
            {call?.isOpen ? (
              <form
                className="row reply"
                onSubmit={(event) => {
                  event.preventDefault()
                  reply()
                }}
              >
                <label className="grow">
                  <span className="hidden">Reply</span>
                  <input
                    ref={field}
                    value={typed}
                    autoComplete="off"
                    placeholder="Reply"
                    onChange={(event) => setTyped(event.target.value)}
                  />
                </label>
                <button type="submit" disabled={busy || typed === ''}>
                  Send
                </button>
              </form>
            ) : (
              <button type="button" className="wide" onClick={dial} disabled={busy}>
                {call ? 'Dial again' : 'Dial'} {code}
              </button>
            )}
            <div className="keypad" role="group" aria-label="Keypad">
              {keys.map((key) => (
                <button
                  key={key}
                  type="button"
                  disabled={!call?.isOpen || busy}
                  onClick={() => setTyped(typed + key)}
                >
                  {key}
                </button>
              ))}
            </div>
            {call?.isOpen && (
              <button
                type="button"
                className="quiet wide"
                onClick={() => setCall({ ...call, isOpen: false })}
              >
                Hang up
              </button>
            )}
          </div>
          <Fault error={fault} />
        </section>

        <section className="card" aria-labelledby="call-title">
          <h2 id="call-title">The call</h2>
          <dl className="figures">
            <div>
              <dt>Screen</dt>
              <dd className={call && septetsOf(call.screen) > 182 ? 'bad' : ''}>
                {call ? septetsOf(call.screen) : 0}
                <small> / 182 septets</small>
              </dd>
            </div>
            <div>
              <dt>Time</dt>
              <dd>
                {seconds}
                <small> s</small>
              </dd>
            </div>
            <div>
              <dt>Answered in</dt>
              <dd>
                {call ? Math.round(call.ms) : 0}
                <small> ms</small>
              </dd>
            </div>
          </dl>
          <h3>Typed so far</h3>
          <p>
            <code className="break">{call?.text || 'nothing'}</code>
          </p>
          <h3>What the gateway keeps</h3>
          <Json value={record ?? 'No call yet.'} label="Debug record of the call" />
        </section>
      </div>
    </>
  )
}

function useSeconds(since: number | undefined): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    if (since === undefined) return
    setNow(Date.now())
    const timer = setInterval(() => setNow(Date.now()), 1_000)
    return () => clearInterval(timer)
  }, [since])
  return since === undefined ? 0 : Math.max(0, Math.round((now - since) / 1_000))
}
