import { lazy, Suspense, useEffect, useRef, useState } from 'react'
import type { ForeignSource } from '../core/records.ts'
import type { ArgsFault } from './args-form.tsx'
import { straight } from './markdown/links.ts'
import { type ApprovalCardProps, shown } from './parts.tsx'
import { useWords } from './words.ts'

/** The code of the form is fetched when somebody wants other arguments. */
const ArgsForm = lazy(async () => ({ default: (await import('./args-form.tsx')).ArgsForm }))

const noFaults: readonly ArgsFault[] = []

/** The call that waits for a person: approve it, approve it with other arguments, or say no. */
export function ApprovalCard({ approval, isBusy, schema, faults = noFaults }: ApprovalCardProps) {
  const words = useWords()
  const [isEdited, setEdited] = useState(false)
  const { pending } = approval
  // While an answer is on its way nothing waits; what was written comes back where it is not taken.
  const last = useRef(pending)
  if (pending) last.current = pending
  const card = useRef<HTMLElement>(null)
  // The question takes the focus only from the button that sent the message: nobody who writes or reads loses it.
  useEffect(() => {
    if (!isBusy && pending && hasLostFocus()) card.current?.focus()
  }, [isBusy, pending?.toolCallId])
  // The button that has the focus is about to go.
  const answer = (work: () => Promise<void>) => () => {
    card.current?.closest<HTMLElement>('.oc-messages')?.focus()
    void work()
  }
  if (!last.current) return null
  const { toolName, question, reason, args, foreign = [] } = last.current
  return (
    <section
      ref={card}
      tabIndex={-1}
      className="oc-approval"
      data-state="waits"
      aria-label={words.waits}
      hidden={pending === null}
    >
      <strong>{words.waits}</strong>
      <p dir="auto">{words.approvalOf(straight(toolName))}</p>
      {question && <p dir="auto">{straight(question)}</p>}
      {foreign.length > 0 ? (
        <Foreign sources={foreign} />
      ) : (
        reason && <p dir="auto">{straight(reason)}</p>
      )}
      {isEdited ? (
        <Suspense>
          <ArgsForm
            args={args}
            schema={schema}
            faults={faults}
            isBusy={isBusy}
            onSubmit={(edited) => void approval.edit(edited)}
          />
        </Suspense>
      ) : (
        <pre dir="ltr" tabIndex={0}>
          {shown(args)}
        </pre>
      )}
      <div className="oc-row">
        {!isEdited && (
          <button type="button" disabled={isBusy} onClick={answer(approval.approve)}>
            {words.approve}
          </button>
        )}
        <button type="button" className="oc-quiet" onClick={() => setEdited(!isEdited)}>
          {isEdited ? words.cancel : words.edit}
        </button>
        <button
          type="button"
          className="oc-quiet"
          disabled={isBusy}
          onClick={answer(async () => approval.reject())}
        >
          {words.reject}
        </button>
      </div>
    </section>
  )
}

/** Whether no control has the focus. A browser takes it from a disabled button only when it next draws the page. */
const hasLostFocus = () =>
  document.activeElement === document.body ||
  !!document.activeElement?.matches(':disabled, [data-kept]')

/** Whose words the oracle had read before it made the call: those words may have asked for the call. */
function Foreign({ sources }: { readonly sources: readonly ForeignSource[] }) {
  const words = useWords()
  return (
    <>
      <p>{words.readBefore}</p>
      <ul>
        {sources.map(({ kind, tool, plugin, label = '' }) => (
          <li key={`${kind} ${tool} ${label}`}>
            <code>{straight(tool ?? kind)}</code> <bdi>{straight(label)}</bdi>{' '}
            {plugin && <span className="oc-faint">{straight(plugin)}</span>}
          </li>
        ))}
      </ul>
    </>
  )
}
