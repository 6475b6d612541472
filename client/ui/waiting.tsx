import { useEffect, useState } from 'react'
import { EditForm } from './edit-form.tsx'
import { useLate } from './follow.ts'
import { longestHoldMs, type OutboxEntry } from './outbox.ts'
import type { OutboxResult } from './use-outbox.ts'
import { useWords } from './words.ts'

/** Within this time what is said is usually on its way. */
const atOnceMs = 500

/** The props of `Waiting`. */
export interface WaitingProps {
  readonly box: OutboxResult
  /** What was said before is being answered: the words wait for that alone. */
  readonly isAnswering?: boolean
}

/** What a person has said and the server has not heard: each can be changed and taken back, and all be tried now. */
export function Waiting({ box, isAnswering }: WaitingProps) {
  const { waiting, outbox, isSending, retryAt } = box
  const words = useWords()
  // Words that go out at once do not wait: eyes and ears are told so only where they are held up.
  const isHeldUp = useLate(waiting.length > 0, atOnceMs) || retryAt !== undefined
  if (waiting.length === 0) return null
  const state = words[isAnswering ? 'waitsForAnswer' : 'waitsForNetwork']
  return (
    <div className="oc-waiting" role="status">
      {waiting.map((entry) => (
        <WaitingMessage key={entry.id} entry={entry} outbox={outbox} state={isHeldUp && state} />
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
  /** What the words wait for, where they are held up. */
  readonly state: string | false
}

function WaitingMessage({ entry: { id, text }, outbox, state }: WaitingMessageProps) {
  const words = useWords()
  const [isEdited, setEdited] = useState(false)
  useEffect(() => {
    if (!isEdited) return
    const hold = () => outbox.hold(id)
    const letGo = () => outbox.letGo(id)
    hold()
    const timer = setInterval(hold, longestHoldMs / 2)
    // A page that is reloaded forgets the edit, and one that comes back has it still.
    window.addEventListener('pagehide', letGo)
    window.addEventListener('pageshow', hold)
    return () => {
      clearInterval(timer)
      window.removeEventListener('pagehide', letGo)
      window.removeEventListener('pageshow', hold)
      outbox.change(id)
    }
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
            <span className="oc-state">{state}</span>
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
