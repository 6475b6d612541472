import type { Notice, NoticesResult } from 'oracle-runtime-client/notices'
import { Fault } from 'oracle-runtime-client/view'
import { to } from '../route.ts'

/** The list behind the bell. */
export function Notices(props: { of: NoticesResult; onOpen: () => void }) {
  const { of, onOpen } = props
  const { notices, unread, muted, markSeen, mute, unmute, error, hasMore, fetchMore } = of
  const newest = notices[0]
  return (
    <>
      <div className="row spread">
        <h2>Notices</h2>
        <button
          type="button"
          className="link"
          disabled={unread === 0}
          onClick={() => newest && void markSeen({ upTo: newest.id }).catch(() => {})}
        >
          Mark all as seen
        </button>
      </div>
      <Fault error={error ?? undefined} />
      {notices.length === 0 && !error && <p className="faint">Nothing yet.</p>}
      <ul>
        {notices.map((notice) => (
          <Item
            key={notice.id}
            notice={notice}
            isMuted={muted.includes(notice.plugin)}
            onOpen={() => {
              onOpen()
              void markSeen({ ids: [notice.id] }).catch(() => {})
            }}
            onMute={(isMuted) =>
              void (isMuted ? unmute(notice.plugin) : mute(notice.plugin)).catch(() => {})
            }
          />
        ))}
      </ul>
      {hasMore && (
        <button type="button" className="quiet" onClick={() => void fetchMore().catch(() => {})}>
          Older
        </button>
      )}
    </>
  )
}

interface ItemProps {
  readonly notice: Notice
  readonly isMuted: boolean
  readonly onOpen: () => void
  readonly onMute: (isMuted: boolean) => void
}

function Item({ notice, isMuted, onOpen, onMute }: ItemProps) {
  const { plugin, title, text, sessionId, createdAt, seenAt } = notice
  const words = (
    <>
      <strong>
        {!seenAt && <span className="hidden">Unread: </span>}
        {title}
      </strong>
      <span>{text}</span>
      <small>
        {plugin}, {new Date(createdAt).toLocaleString()}
      </small>
    </>
  )
  return (
    <li className={seenAt ? '' : 'unseen'}>
      {sessionId === undefined ? (
        <button type="button" className="notice" onClick={onOpen}>
          {words}
        </button>
      ) : (
        <a className="notice" href={to('chat', sessionId)} onClick={onOpen}>
          {words}
        </a>
      )}
      <button
        type="button"
        className="link"
        aria-label={`${isMuted ? 'Unmute' : 'Mute'} ${plugin}`}
        onClick={() => onMute(isMuted)}
      >
        {isMuted ? 'Unmute' : 'Mute'}
      </button>
    </li>
  )
}
