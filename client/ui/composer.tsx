import { type ReactNode, type RefObject, useRef } from 'react'
import { AttachButton, Attachments } from './attachments.tsx'
import { useLayout } from './follow.ts'
import { lendFocus } from './kept-focus.ts'
import { useLook } from './parts.tsx'
import { isCoarse, isComposing, isSendKey } from './send-key.ts'
import { type ComposerUse, useComposer } from './use-composer.ts'
import { useWords } from './words.ts'

/** The props of `Composer`. */
export interface ComposerProps extends ComposerUse {
  /** What was said last: ↑ in an empty composer brings it back, where it cannot be edited in its place. */
  readonly lastSaid?: string
  /** Begins to edit what was said last; false where that cannot be changed now. */
  readonly onEditLast?: () => boolean
  readonly onStop: () => void
  /** What stands below the field: a choice of the model, for example. */
  readonly children?: ReactNode
}

/** Where a message is written: one line that grows, whose text outlives a reload, and the files that go along. */
export function Composer({ lastSaid, onEditLast, onStop, children, ...use }: ComposerProps) {
  const words = useWords()
  const { components } = useLook()
  const List = components.Attachments ?? Attachments
  const { isSending, files } = use
  const { text, setText, isReady, send } = useComposer(use)
  const field = useRef<HTMLTextAreaElement>(null)
  useLayout(() => {
    const area = field.current
    if (!area) return
    area.style.blockSize = 'auto'
    area.style.blockSize = `${Math.min(area.scrollHeight, window.innerHeight * 0.4)}px`
  }, [text])
  const button = useFocusBack(isSending || isReady, field)
  const take = (event: { preventDefault(): void }, data: DataTransfer | null) => {
    if (!files || !data || data.files.length === 0) return
    event.preventDefault()
    files.add([...data.files])
  }
  return (
    <form
      className="oc-composer"
      data-state={isSending ? 'sending' : 'ready'}
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
      onDragOver={(event) => files && event.preventDefault()}
      onDrop={(event) => take(event, event.dataTransfer)}
    >
      {files && <List files={files} />}
      {files && <AttachButton files={files} />}
      <textarea
        ref={field}
        dir="auto"
        rows={1}
        aria-label={words.message}
        placeholder={words.ask}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onPaste={(event) => take(event, event.clipboardData)}
        onKeyDown={(event) => {
          const { key } = event
          if (isComposing(event)) return
          if (isSendKey(event)) {
            event.preventDefault()
            send()
          } else if (key === 'Escape' && isSending) onStop()
          else if (key === 'ArrowUp' && text === '' && lastSaid) {
            event.preventDefault()
            if (!onEditLast?.()) setText(lastSaid)
          }
        }}
      />
      {isSending ? (
        // The second click of a double one on Send is not meant for what stands there by then.
        <button ref={button} type="button" onClick={({ detail }) => detail !== 2 && onStop()}>
          {words.stop}
        </button>
      ) : (
        <button ref={button} type="submit" disabled={!isReady}>
          {words.send}
        </button>
      )}
      {children && <div className="oc-below">{children}</div>}
    </form>
  )
}

/** For a button that gives the focus back to a field once it cannot be pressed any more, but where that opens the keys of a screen. */
function useFocusBack(canPress: boolean, field: RefObject<HTMLElement | null>) {
  const button = useRef<HTMLButtonElement>(null)
  useLayout(() => {
    const hasFocus = document.activeElement === button.current
    if (!canPress && hasFocus && field.current && !isCoarse()) lendFocus(field.current)
  }, [canPress])
  return button
}
