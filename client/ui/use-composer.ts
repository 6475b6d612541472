import type { Attachment } from '../core/records.ts'
import { useClientIfAny } from '../react/provider.ts'
import { useDraft } from './hooks.ts'
import type { Files } from './use-files.ts'

/** What `useComposer` needs. */
export interface ComposerUse {
  /** What the draft is kept by: another name has another draft. */
  readonly name: string
  readonly isSending: boolean
  readonly files?: Files
  /** False: the words were not taken, and stay where they are. */
  readonly onSend: (text: string, attachments: readonly Attachment[]) => boolean | void
}

/** What `useComposer` returns. */
export interface ComposerState {
  readonly text: string
  readonly setText: (text: string) => void
  /** Whether there is something to send, and may be sent now. */
  readonly isReady: boolean
  readonly send: () => void
}

/** A message as it is written: its text, which outlives a reload, and the way to send it with its files. */
export function useComposer({ name, isSending, files, onSend }: ComposerUse): ComposerState {
  // One browser may have several users: nobody finds another's words.
  const did = useClientIfAny()?.wallet.did ?? ''
  const [text, setText] = useDraft(`${did} ${name}`)
  const isReady = text.trim() !== '' && !isSending && (files?.isReady ?? true)
  const send = () => {
    if (!isReady || onSend(text, files?.attachments ?? []) === false) return
    setText('')
    files?.clear()
  }
  return { text, setText, isReady, send }
}
