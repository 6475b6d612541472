import { Fragment, memo, Suspense, useState } from 'react'
import type { IMessage } from '../core/records.ts'
import { CopyButton } from './copy.tsx'
import { FileList, useDrawn } from './drawn.tsx'
import { EditForm } from './edit-form.tsx'
import type { Versions } from './hooks.ts'
import type { FileListProps } from './files.tsx'
import { straight } from './markdown/links.ts'
import { Markdown } from './markdown/markdown.tsx'
import { endingOf, useLook } from './parts.tsx'
import type { ProgressOf } from './progress.tsx'
import type { Rating } from './use-feedback.ts'
import { useWords } from './words.ts'

/** What a message says, without its cards. */
export const textOf = ({ content }: IMessage): string =>
  (Array.isArray(content) ? content : [content]).filter((part) => typeof part === 'string').join('')

/** The props of `Message`. */
export interface MessageProps {
  readonly message: IMessage
  readonly isStreaming: boolean
  /** A person's words that no answer follows. */
  readonly isUnanswered?: boolean
  /** The call that waits for a person. */
  readonly waitingCall?: string
  readonly versions?: Versions
  readonly canChange?: boolean
  readonly onVersion?: (sessionId: string) => void
  readonly onEdit?: (text: string) => void
  readonly onAgain?: () => void
  /** How far running calls are, by the id of the call. */
  readonly progress?: ReadonlyMap<string, ProgressOf>
  /** What the reader thinks of the answer, where the oracle takes that. */
  readonly rating?: Rating
  readonly onRate?: (rating: Rating | null) => void
  /** The model that usually answers: another one is named. */
  readonly usual?: string
}

/** One message: what was thought, what was said, and then what was called. */
export const Message = memo(function Message(props: MessageProps) {
  const { message, isStreaming, waitingCall, onEdit, progress, usual } = props
  const words = useWords()
  const { components: Parts } = useLook()
  const Below = Parts.MessageActions ?? MessageActions
  const [isEdited, setEdited] = useState<boolean>()
  const [written, setWritten] = useState('') // stays for who edits again what could not be sent
  const { type, reasoning, isReasoning = false, toolCalls = [], attachments = [] } = message
  const drawn = useDrawn(message)
  const text = textOf(message)
  const isOwn = type === 'human'
  const ending = endingOf(message, isStreaming, props.isUnanswered)
  return (
    <article
      className={`oc-message oc-${type}`}
      data-state={isStreaming ? 'streaming' : 'done'}
      aria-label={isOwn ? words.you : words.oracle}
    >
      {reasoning && <Parts.Reasoning text={reasoning} isThinking={isReasoning} />}
      {isEdited ? (
        <EditForm
          text={written || text}
          onEnd={(edited) => {
            setEdited(false)
            setWritten(edited)
            if (edited.trim()) onEdit?.(edited)
          }}
        />
      ) : (
        <Said text={text} isOwn={isOwn} isStreaming={isStreaming} />
      )}
      {toolCalls.map((call) => (
        <Fragment key={call.id}>
          {drawn(call) ?? (
            <Parts.ToolCard
              call={call}
              waits={call.waits === true || call.id === waitingCall}
              progress={progress?.get(call.id)}
            />
          )}
          {call.parts && (
            <Files
              label={straight(call.name)}
              files={call.parts.map(({ name, type: kind, ...part }) => ({
                ...part,
                name: name ?? kind,
              }))}
            />
          )}
        </Fragment>
      ))}
      <Files
        label={words.attachments}
        files={attachments.map(({ fileId, filename = '', mimetype = '' }) => ({
          fileId,
          name: filename,
          mediaType: mimetype,
        }))}
      />
      {isStreaming && !isOwn && !isReasoning && <span className="oc-cursor" aria-hidden="true" />}
      {!isOwn && usual && message.model && message.model !== usual && (
        <p className="oc-ending">{words.answeredBy(straight(message.model))}</p>
      )}
      {ending && <p className="oc-ending">{words[ending]}</p>}
      {!isEdited && !isStreaming && (
        <Below
          {...props}
          text={text}
          wasEdited={isEdited === false}
          onBeginEdit={() => setEdited(true)}
        />
      )}
    </article>
  )
})

/** Files, where there are any. */
function Files(props: FileListProps) {
  if (props.files.length === 0) return null
  return (
    <Suspense>
      <FileList {...props} />
    </Suspense>
  )
}

interface SaidProps {
  readonly text: string
  readonly isOwn: boolean
  readonly isStreaming: boolean
}

/** The words of a message: a person's as they were written, an answer's as Markdown. */
function Said({ text, isOwn, isStreaming }: SaidProps) {
  const { imageHosts, renderers } = useLook()
  if (isOwn)
    return (
      <p className="oc-said" dir="auto">
        {text}
      </p>
    )
  if (text === '') return null
  return (
    <Markdown text={text} isStreaming={isStreaming} imageHosts={imageHosts} renderers={renderers} />
  )
}

/** The props of `MessageActions`. */
export interface MessageActionsProps extends MessageProps {
  readonly text: string
  /** Somebody has just left its edit, and is back here. */
  readonly wasEdited?: boolean
  readonly onBeginEdit: () => void
}

/** How many messages of this page’s own time are told from when they are; behind these, no time is said rather than a wrong one. */
const mostSeen = 1_000

/** When messages were first shown whole that came while the page was open: the history alone says of a message when it was said. */
const seen = new Map<string, string>()

function firstSeen(id: string): string | undefined {
  if (!seen.has(id) && seen.size < mostSeen) seen.set(id, new Date().toISOString())
  return seen.get(id)
}

/** What can be done with a message, and when it was said. */
export function MessageActions(props: MessageActionsProps) {
  const { message, text, versions, canChange = false, onVersion, onEdit, onAgain } = props
  const words = useWords()
  const { components } = useLook()
  const Picker = components.BranchPicker ?? BranchPicker
  const { type, createdAt = firstSeen(message.id) } = message
  const isOwn = type === 'human'
  return (
    <div className="oc-actions">
      {versions && <Picker versions={versions} onVersion={onVersion} />}
      {text !== '' && <CopyButton text={text} className="oc-quiet" />}
      {isOwn && canChange && onEdit && (
        <button
          type="button"
          className="oc-quiet oc-begin-edit"
          autoFocus={props.wasEdited}
          onClick={props.onBeginEdit}
        >
          {words.edit}
        </button>
      )}
      {!isOwn && canChange && onAgain && (
        <button type="button" className="oc-quiet" onClick={onAgain}>
          {words.again}
        </button>
      )}
      {!isOwn && canChange && text !== '' && props.onRate && (
        <Thumbs rating={props.rating} onRate={props.onRate} />
      )}
      {createdAt && (isOwn || text !== '') && (
        <time dateTime={createdAt}>
          {new Date(createdAt).toLocaleString(words.locale, {
            dateStyle: 'medium',
            timeStyle: 'short',
          })}
        </time>
      )}
    </div>
  )
}

interface ThumbsProps extends Pick<MessageProps, 'rating'> {
  readonly onRate: (rating: Rating | null) => void
}

/** Up and down: the one that is pressed already takes itself back. */
function Thumbs({ rating, onRate }: ThumbsProps) {
  const words = useWords()
  const thumbs = [
    ['up', words.good, '↑'],
    ['down', words.bad, '↓'],
  ] as const
  return thumbs.map(([value, label, sign]) => (
    <button
      key={value}
      type="button"
      className="oc-quiet"
      aria-label={label}
      title={label}
      aria-pressed={rating === value}
      onClick={() => onRate(rating === value ? null : value)}
    >
      {sign}
    </button>
  ))
}

/** The props of `BranchPicker`. */
export interface BranchPickerProps {
  readonly versions: Versions
  readonly onVersion?: (sessionId: string) => void
}

/** Which version of a message is shown, and the way to the others: ‹ 2 / 3 ›. */
export function BranchPicker({ versions: { sessions, shown }, onVersion }: BranchPickerProps) {
  const words = useWords()
  const to = (nth: number) => () => {
    const id = sessions[nth]
    if (id !== undefined) onVersion?.(id)
  }
  return (
    <span className="oc-branches" role="group">
      <button
        type="button"
        className="oc-quiet"
        aria-label={words.earlier}
        disabled={shown === 0}
        onClick={to(shown - 1)}
      >
        ‹
      </button>
      {words.branchOf(shown + 1, sessions.length)}
      <button
        type="button"
        className="oc-quiet"
        aria-label={words.later}
        disabled={shown === sessions.length - 1}
        onClick={to(shown + 1)}
      >
        ›
      </button>
    </span>
  )
}
