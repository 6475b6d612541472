import { useLayoutEffect, useRef } from 'react'
import { useDraft } from './hooks.ts'
import { useWords } from './words.ts'

/** The props of `Composer`. */
export interface ComposerProps {
  /** What the draft is kept by: another name has another draft. */
  readonly name: string
  readonly isSending: boolean
  /** What was said last: ↑ in an empty composer brings it back. */
  readonly lastSaid?: string
  readonly onSend: (text: string) => void
  readonly onStop: () => void
}

/** Where a message is written: one line that grows, whose text outlives a reload. */
export function Composer({ name, isSending, lastSaid, onSend, onStop }: ComposerProps) {
  const words = useWords()
  const [text, setText] = useDraft(name)
  const field = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => {
    const area = field.current
    if (!area) return
    area.style.blockSize = 'auto'
    area.style.blockSize = `${Math.min(area.scrollHeight, window.innerHeight * 0.4)}px`
  }, [text])
  const send = () => {
    if (!text.trim() || isSending) return
    onSend(text)
    setText('')
  }
  return (
    <form
      className="oc-composer"
      data-state={isSending ? 'sending' : 'ready'}
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <textarea
        ref={field}
        dir="auto"
        rows={1}
        aria-label={words.message}
        placeholder={words.ask}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          const { key, shiftKey, nativeEvent } = event
          if (nativeEvent.isComposing) return
          if (key === 'Enter' && !shiftKey) {
            event.preventDefault()
            send()
          } else if (key === 'Escape' && isSending) onStop()
          else if (key === 'ArrowUp' && text === '' && lastSaid) {
            event.preventDefault()
            setText(lastSaid)
          }
        }}
      />
      {isSending ? (
        <button type="button" onClick={onStop}>
          {words.stop}
        </button>
      ) : (
        <button type="submit" disabled={!text.trim()}>
          {words.send}
        </button>
      )}
    </form>
  )
}
