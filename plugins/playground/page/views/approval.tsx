import { useEffect, useRef, useState } from 'react'
import type { Approval as Ask, ForeignSource } from 'oracle-runtime-client'
import { Fault } from '../parts/fault.tsx'
import { Lines } from '../parts/inputs.tsx'

interface Props {
  readonly approval: Ask
  /** The chat still streams: the stream of the answer goes on for a moment after the question. */
  readonly isSending: boolean
  /** Hears that the person has answered: the button that has the focus then is about to go. */
  readonly onAnswer: () => void
}

/** A tool that waits for a person: its arguments, to approve, to change or to reject, and what may have asked for it. */
export function Approval({ approval, isSending, onAnswer }: Props) {
  const { pending, approve, reject, edit } = approval
  const original = JSON.stringify(pending?.args ?? {}, null, 2)
  const [text, setText] = useState(original)
  const [fault, setFault] = useState<unknown>()
  const card = useRef<HTMLElement>(null)
  // The question takes the focus from the button that sent the message alone, so nobody who writes or reads elsewhere loses it.
  useEffect(() => {
    if (!isSending && hasLostFocus()) card.current?.focus()
  }, [isSending])
  const work = (job: () => Promise<void>) => () => {
    setFault(undefined)
    job().catch(setFault)
    onAnswer()
  }
  const agree = work(async () => (text === original ? approve() : edit(JSON.parse(text))))
  if (!pending) return null
  return (
    <section
      className="card approval"
      ref={card}
      tabIndex={-1}
      aria-label={`${pending.toolName} needs your approval`}
    >
      <h3>
        <code>{pending.toolName}</code> needs your approval
      </h3>
      {pending.foreign && <Foreign sources={pending.foreign} />}
      <Lines label="Arguments" value={text} onChange={setText} rows={rowsOf(text)} />
      <Fault error={fault} />
      <div className="row">
        <button type="button" onClick={agree}>
          {text === original ? 'Approve' : 'Approve as changed'}
        </button>
        <button type="button" className="quiet" onClick={work(reject)}>
          Reject
        </button>
      </div>
    </section>
  )
}

/** A browser takes the focus from a button that was disabled only when it draws the page again. */
const hasLostFocus = () =>
  document.activeElement === document.body || !!document.activeElement?.matches(':disabled')

/** How high the arguments stand: all of them are in sight where that is possible, so that nobody agrees unseen. */
const rowsOf = (text: string) => Math.min(Math.max(text.split('\n').length, 3), 16)

/** Whose words the oracle had read before it made the call: those words may be what asks for it. */
function Foreign({ sources }: { sources: readonly ForeignSource[] }) {
  return (
    <>
      <p>It read words of others before it asked for this. They may be what asks:</p>
      <ul aria-label="Read before">
        {sources.map(({ kind, tool, plugin, label }) => (
          <li key={`${kind} ${tool} ${label}`}>
            <code>{tool ?? kind}</code> {label} {plugin && <span className="faint">{plugin}</span>}
          </li>
        ))}
      </ul>
    </>
  )
}
