import {
  type FocusEvent,
  type FormEvent,
  type RefObject,
  useCallback,
  useReducer,
  useRef,
} from 'react'
import { useLayout } from './follow.ts'
import { lendFocus, useKeptFocus } from './kept-focus.ts'

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
  const isLent = useRef(false)
  const typed = useRef('')
  const kept = useKeptFocus(frame)
  const field = () => frame.current?.querySelector<HTMLTextAreaElement>(fieldOf)
  useLayout(() => {
    const next = field()
    if (!next || !isWriting.current || document.activeElement !== document.body) return
    if (isLent.current) lendFocus(next)
    else next.focus()
  }, [shown])
  useLayout(() => {
    if (asked > 0) field()?.focus()
  }, [asked])
  return {
    write,
    typed: useCallback(() => typed.current, []),
    props: {
      onFocus(event) {
        isWriting.current = event.target.matches(fieldOf)
        isLent.current = event.target.matches('[data-kept]')
        kept.onFocus(event)
      },
      // Nobody is told of the blur of a field that goes, and one of the whole window takes nothing away.
      onBlur() {
        isWriting.current &&= !document.hasFocus()
        kept.onBlur()
      },
      onInput: ({ target }) => {
        const written = field()
        if (!written || written !== target) return
        typed.current = written.value
        isLent.current = false
      },
    },
  }
}
