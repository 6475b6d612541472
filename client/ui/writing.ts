import {
  type FocusEvent,
  type FormEvent,
  type RefObject,
  useCallback,
  useReducer,
  useRef,
} from 'react'
import { useLayout } from './follow.ts'
import { useKeptFocus } from './kept-focus.ts'

const fieldOf = '.oc-composer textarea'

/** Who writes in a chat, whichever conversation is shown. */
interface Writing {
  /** Puts the focus into the field of the conversation that is shown next. */
  readonly write: () => void
  /** What was typed last in a field of this chat; it may be sent by now. */
  readonly typed: () => string
  /** Props of the element around the conversation. */
  readonly props: {
    readonly onFocus: (event: FocusEvent) => void
    readonly onBlur: () => void
    readonly onInput: (event: FormEvent) => void
  }
}

/**
 * Another conversation has another field. Who writes as the first words get their session goes on in its field: the focus would
 * be lost with the old one. `shown` changes with the conversation.
 */
export function useWriting(frame: RefObject<HTMLElement | null>, shown: string): Writing {
  const [asked, write] = useReducer((count: number) => count + 1, 0)
  const isWriting = useRef(false)
  const typed = useRef('')
  const kept = useKeptFocus(frame)
  const focus = () => frame.current?.querySelector<HTMLElement>(fieldOf)?.focus()
  useLayout(() => {
    if (isWriting.current && document.activeElement === document.body) focus()
  }, [shown])
  useLayout(() => {
    if (asked > 0) focus()
  }, [asked])
  return {
    write,
    typed: useCallback(() => typed.current, []),
    props: {
      onFocus(event) {
        isWriting.current = event.target.matches(fieldOf)
        kept.onFocus(event)
      },
      // Nobody is told of the blur of a field that goes, and one of the whole window takes nothing away.
      onBlur() {
        isWriting.current &&= !document.hasFocus()
        kept.onBlur()
      },
      onInput: ({ target }) => {
        const field = frame.current?.querySelector<HTMLTextAreaElement>(fieldOf)
        if (field && field === target) typed.current = field.value
      },
    },
  }
}
