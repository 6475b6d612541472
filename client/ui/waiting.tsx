import { useEffect, useState } from 'react'
import { EditForm } from './edit-form.tsx'
import type { OutboxEntry } from './outbox.ts'
import type { OutboxResult } from './use-outbox.ts'
import { useWords } from './words.ts'

/** The props of `Waiting`. */
export interface WaitingProps {
  readonly box: OutboxResult
}

/** What a person has said and the server has not heard: each can be changed and taken back, and all be tried now. */
export function Waiting({ box: { waiting, outbox, isSending, retryAt } }: WaitingProps) {
  const words = useWords()
  if (waiting.length === 0) return null
  return (
    <div className="oc-waiting" role="status">
      {waiting.map((entry) => (
        <WaitingMessage key={entry.id} entry={entry} outbox={outbox} />
      ))}
      {!isSending && retryAt !== undefined && (
        <button type="button" className="oc-quiet" onClick={outbox.tryNow}>
          {words.tryNow}
        </button>
      )}
    </div>
  )
}

interface WaitingMessageProps extends Pick<OutboxResult, 'outbox'> {
  readonly entry: OutboxEntry
}

function WaitingMessage({ entry: { id, text }, outbox }: WaitingMessageProps) {
  const words = useWords()
  const [isEdited, setEdited] = useState(false)
  useEffect(() => {
    if (!isEdited) return
    outbox.hold(id)
    return () => outbox.change(id)
  }, [isEdited, id])
  return (
    <article className="oc-message oc-human" data-state="waiting" aria-label={words.you}>
      {isEdited ? (
        <EditForm
          text={text}
          onEnd={(edited) => {
            outbox.change(id, edited)
            setEdited(false)
          }}
        />
      ) : (
        <>
          <p className="oc-said" dir="auto">
            {text}
          </p>
          <div className="oc-actions" data-shown="">
            <span className="oc-state">{words.waitsForNetwork}</span>
            <button type="button" className="oc-quiet" onClick={() => setEdited(true)}>
              {words.edit}
            </button>
            <button type="button" className="oc-quiet" onClick={() => outbox.cancel(id)}>
              {words.cancel}
            </button>
          </div>
        </>
      )}
    </article>
  )
}
