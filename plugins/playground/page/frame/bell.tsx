import { lazy, Suspense, useEffect, useId, useRef, useState } from 'react'
import { useNotices } from 'oracle-runtime-client/notices'
import type { Oracle } from '../oracle.ts'

// The list is fetched when somebody opens it.
const Notices = lazy(async () => ({ default: (await import('./notices.tsx')).Notices }))

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
  const of = useNotices(oracle.did, {
    onEvent({ eventName, payload }) {
      if (eventName === 'notice') setNews(`${payload.title}: ${payload.text}`)
      // The list of chats shows titles, new chats and what is unread.
      const isNews = eventName === 'notice' || eventName === 'session' || eventName === 'connected'
      if (isNews) void readSessions()
      const isHere = eventName === 'run' && payload.sessionId === sessionId
      if (isHere || eventName === 'connected') readChat(isHere ? payload.runId : undefined)
    },
  })
  const { notices, unread, markSeen } = of
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
        {isOpen && (
          <Suspense>
            <Notices of={of} onOpen={() => setOpen(false)} />
          </Suspense>
        )}
      </section>
    </div>
  )
}
