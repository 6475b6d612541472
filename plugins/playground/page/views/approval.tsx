import { useEffect, useRef, useState } from 'react'
import type { Approval as Ask, ForeignSource } from 'oracle-runtime-client'
import { Fault, LinesField } from 'oracle-runtime-client/view'

interface Props {
  readonly approval: Ask
  /** Whether the chat still streams, which it does for a moment after the turn has asked for the approval. */
  readonly isSending: boolean
  /** Called when the person has answered: the button that has the focus then is about to go. */
  readonly onAnswer: () => void
}

/** A tool that waits for a person: its arguments, to approve, to change or to reject, and the sources that may have asked. */
export function Approval({ approval, isSending, onAnswer }: Props) {
  const { pending, approve, reject, edit } = approval
  const original = JSON.stringify(pending?.args ?? {}, null, 2)
  const [text, setText] = useState(original)
  const [fault, setFault] = useState<unknown>()
  const card = useRef<HTMLElement>(null)
  // The question takes the focus only from the button that sent the message, so nobody who writes or reads loses the focus.
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
      <LinesField label="Arguments" value={text} onChange={setText} rows={rowsOf(text)} />
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

/** Whether no control has the focus. A browser takes the focus from a disabled button only when it next draws the page. */
const hasLostFocus = () =>
  document.activeElement === document.body || !!document.activeElement?.matches(':disabled')

/** How many rows the arguments get: enough to show all of them where possible, so that nobody approves unseen arguments. */
const rowsOf = (text: string) => Math.min(Math.max(text.split('\n').length, 3), 16)

/** Whose words the oracle had read before it made the call: those words may have asked for the call. */
function Foreign({ sources }: { sources: readonly ForeignSource[] }) {
  return (
    <>
      <p>The oracle read words of others before it asked for this. Those words may be what asks:</p>
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
