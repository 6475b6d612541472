import { lazy, Suspense, useState } from 'react'
import { renderMessageContent, type IMessage } from 'oracle-runtime-client'
import { EditForm, endingOf, Markdown, MessageActions } from 'oracle-runtime-client/ui'
import type { MessageProps } from 'oracle-runtime-client/ui'
import { Used } from '../parts/remembered.tsx'
import { AnsweredBy } from '../parts/told.tsx'
import { components } from './tool-card.tsx'

const FileList = lazy(async () => ({ default: (await import('../parts/file-view.tsx')).FileList }))

/** What stands below an answer that did not come to its own end. */
const endings = { stopped: 'Stopped', cutOff: 'Cut off', failed: 'The answer failed' }

/** One message: what was thought, what was said, and then what was called. */
export function Message(props: {
  message: IMessage
  /** It is being said. */
  isStreaming: boolean
  /** The run whose answer ends with this message. */
  runId: string | undefined
  newest: string | null
  usual: string | undefined
  /** What can be done with the message: another version of it, its other versions. */
  actions: Pick<MessageProps, 'versions' | 'canChange' | 'onVersion' | 'onEdit' | 'onAgain'>
}) {
  const { message, isStreaming, runId, newest, usual, actions } = props
  const [isEdited, setEdited] = useState(false)
  const ending = endingOf(message, isStreaming)
  const { type, content, reasoning, isComplete, isReasoning, attachments = [] } = message
  const parts = Array.isArray(content) ? content : [content]
  const text = parts.filter((part) => typeof part === 'string').join('')
  const places = parts.filter((part) => typeof part !== 'string')
  return (
    <article className={`message ${type}`} aria-label={type === 'human' ? 'You' : 'Oracle'}>
      {reasoning && (
        <details className="reasoning">
          <summary>{isReasoning ? 'Thinking…' : 'What it thought'}</summary>
          <Markdown text={reasoning} isStreaming={isReasoning} />
        </details>
      )}
      {isEdited && (
        <EditForm
          text={text}
          onEnd={(edited) => {
            setEdited(false)
            if (edited.trim()) actions.onEdit?.(edited)
          }}
        />
      )}
      {text && type === 'human' && !isEdited && (
        <p className="text" dir="auto">
          {text}
        </p>
      )}
      {text && type === 'ai' && (
        <div className="text rich">
          <Markdown text={text} isStreaming={isStreaming} />
        </div>
      )}
      {places.map((place) => (
        <div key={place.props.id} className="place">
          {renderMessageContent(place, components)}
        </div>
      ))}
      {attachments.length > 0 && (
        <Suspense>
          <FileList
            label="Attached files"
            files={attachments.map(({ fileId, filename, mimetype }) => ({
              fileId,
              name: filename ?? 'file',
              mediaType: mimetype ?? '',
            }))}
          />
        </Suspense>
      )}
      {runId !== undefined && <Used runId={runId} isNewest={runId === newest} />}
      <AnsweredBy message={message} usual={usual} />
      {isStreaming && type === 'ai' && isComplete === false && !isReasoning && (
        <span className="cursor" aria-hidden="true" />
      )}
      {ending && <p className="answered-by">{endings[ending]}</p>}
      {text && !isStreaming && !isEdited && (
        <MessageActions
          {...actions}
          message={message}
          isStreaming={isStreaming}
          text={text}
          onBeginEdit={() => setEdited(true)}
        />
      )}
    </article>
  )
}
