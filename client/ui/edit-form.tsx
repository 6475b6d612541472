import { useState } from 'react'
import { isComposing, isSendKey } from './send-key.ts'
import { useWords } from './words.ts'

/** The props of `EditForm`. */
export interface EditFormProps {
  readonly text: string
  /** Takes the new words; none when the edit is taken back. */
  readonly onEnd: (edited: string) => void
}

/** A text that is changed in its place, by the keys of the composer. */
export function EditForm({ text, onEnd }: EditFormProps) {
  const words = useWords()
  const [edited, setEdited] = useState(text)
  const isReady = edited.trim() !== ''
  const send = () => isReady && onEnd(edited)
  return (
    <form
      className="oc-edit"
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
      onKeyDown={(event) => event.key === 'Escape' && !isComposing(event) && onEnd('')}
    >
      <textarea
        dir="auto"
        aria-label={words.edit}
        value={edited}
        rows={3}
        autoFocus
        onChange={(event) => setEdited(event.target.value)}
        onKeyDown={(event) => {
          if (!isSendKey(event)) return
          event.preventDefault()
          send()
        }}
      />
      <div className="oc-row">
        <button type="submit" disabled={!isReady}>
          {words.send}
        </button>
        <button type="button" className="oc-quiet" onClick={() => onEnd('')}>
          {words.cancel}
        </button>
      </div>
    </form>
  )
}
