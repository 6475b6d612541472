import { useEffect, useId, useRef, useState } from 'react'
import { useNotices, type Notice } from 'oracle-runtime-client/notices'
import { Fault } from 'oracle-runtime-client/view'
import type { Oracle } from '../oracle.ts'
import { to } from '../route.ts'

interface Props {
  readonly oracle: Oracle
  /** The chat that is open now, if one is. */
  readonly sessionId: string
}

/** A bell with the number of notices that nobody has seen, and the list of notices behind it. */
export function Bell({ oracle, sessionId }: Props) {
  const [isOpen, setOpen] = useState(false)
  const [news, setNews] = useState('')
  const button = useRef<HTMLButtonElement>(null)
  const list = useId()
  const sessions = oracle.client.sessions(oracle.did)
  const readSessions = async () => {
    if (sessions.isMounted) await sessions.refetch()
  }
  /** Reads the open chat again, unless the chat follows the run itself: a plugin may have begun one that the page did not hear of. */
  const readChat = (runId?: string) => {
    if (!sessionId) return
    const chat = oracle.client.chat({ oracleDid: oracle.did, sessionId })
    const isFollowed = runId !== undefined && chat.getSnapshot().run.runId === runId
    if (chat.isMounted && !isFollowed) void chat.refetchMessages()
  }
  const { notices, unread, muted, markSeen, mute, unmute, error, hasMore, fetchMore } = useNotices(
    oracle.did,
    {
      onEvent({ eventName, payload }) {
        if (eventName === 'notice') setNews(`${payload.title}: ${payload.text}`)
        // The list of chats shows titles, new chats and what is unread.
        const isNews =
          eventName === 'notice' || eventName === 'session' || eventName === 'connected'
        if (isNews) void readSessions()
        const isHere = eventName === 'run' && payload.sessionId === sessionId
        if (isHere || eventName === 'connected') readChat(isHere ? payload.runId : undefined)
      },
    },
  )
  const isUnseenHere = notices.some((one) => one.sessionId === sessionId && !one.seenAt)
  useEffect(() => {
    if (!sessionId || !isUnseenHere) return
    const see = () => {
      if (document.visibilityState !== 'visible') return
      // What cannot be marked now is marked with the next notice of the chat.
      void markSeen({ sessionId }).then(readSessions, () => {})
    }
    see()
    document.addEventListener('visibilitychange', see)
    return () => document.removeEventListener('visibilitychange', see)
  }, [sessionId, isUnseenHere])
  const close = () => {
    setOpen(false)
    button.current?.focus()
  }
  const newest = notices[0]
  return (
    <div
      className="bell"
      onKeyDown={(event) => {
        if (event.key === 'Escape' && isOpen) close()
      }}
    >
      <button
        ref={button}
        type="button"
        className="quiet"
        aria-expanded={isOpen}
        aria-controls={list}
        onClick={() => setOpen(!isOpen)}
      >
        <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true">
          <path
            fill="currentColor"
            d="M12 2a6 6 0 0 0-6 6v5l-2 3v1h16v-1l-2-3V8a6 6 0 0 0-6-6zm-2.5 16a2.5 2.5 0 0 0 5 0z"
          />
        </svg>
        <span className="hidden">{unread === 0 ? 'Notices' : `Notices, ${unread} unread`}</span>
        {unread > 0 && (
          <b className="count" aria-hidden="true">
            {unread > 99 ? '99+' : unread}
          </b>
        )}
      </button>
      <p className="hidden" aria-live="polite">
        {news}
      </p>
      <section id={list} className="card notices" aria-label="Notices" hidden={!isOpen}>
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
                setOpen(false)
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
      </section>
    </div>
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
