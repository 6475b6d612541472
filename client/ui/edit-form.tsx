import { useState } from 'react'
import { useWords } from './words.ts'

/** The props of `EditForm`. */
export interface EditFormProps {
  readonly text: string
  /** Takes the new words; none when the edit is taken back. */
  readonly onEnd: (edited: string) => void
}

/** A text that is changed in its place. */
export function EditForm({ text, onEnd }: EditFormProps) {
  const words = useWords()
  const [edited, setEdited] = useState(text)
  return (
    <form
      className="oc-edit"
      onSubmit={(event) => {
        event.preventDefault()
        onEnd(edited)
      }}
      onKeyDown={({ key }) => key === 'Escape' && onEnd('')}
    >
      <textarea
        dir="auto"
        aria-label={words.edit}
        value={edited}
        rows={3}
        autoFocus
        onChange={(event) => setEdited(event.target.value)}
      />
      <div className="oc-row">
        <button type="submit">{words.send}</button>
        <button type="button" className="oc-quiet" onClick={() => onEnd('')}>
          {words.cancel}
        </button>
      </div>
    </form>
  )
}
