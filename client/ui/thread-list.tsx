import { useState } from 'react'
import type { IChatSession } from '../core/records.ts'
import type { Threads } from './use-threads.ts'
import { straight } from './markdown/links.ts'
import { useWords, type Words } from './words.ts'

/** The props of `ThreadList`. */
export interface ThreadListProps {
  readonly threads: Threads
  readonly current: string
  readonly onOpen: (sessionId: string) => void
  readonly onNew: () => void
}

/** The user's conversations by day: open one, rename it, delete it. */
export function ThreadList({ threads, current, onOpen, onNew }: ThreadListProps) {
  const words = useWords()
  const [renamed, setRenamed] = useState<{ id: string; title: string }>()
  const days = byDay(threads.threads, words)
  return (
    <nav
      className="oc-threads"
      aria-label={words.chats}
      data-state={threads.isLoading ? 'loading' : 'ready'}
    >
      <button type="button" onClick={onNew}>
        {words.newChat}
      </button>
      <div
        className="oc-days"
        onScroll={({ currentTarget: box }) => {
          if (box.scrollHeight - box.scrollTop - box.clientHeight < 200) void threads.more()
        }}
      >
        {days.map(([day, sessions]) => (
          <section key={day}>
            <h3>{day}</h3>
            <ul>
              {sessions.map(({ sessionId: id, title, unread = 0 }) => (
                <li key={id}>
                  {renamed?.id === id ? (
                    <RenameForm
                      title={renamed.title}
                      onTitle={(now) => setRenamed({ id, title: now })}
                      onCancel={() => setRenamed(undefined)}
                      onRename={(now) => {
                        setRenamed(undefined)
                        void threads.rename(id, now)
                      }}
                    />
                  ) : (
                    <Row
                      title={title}
                      unread={unread}
                      isCurrent={id === current}
                      onOpen={() => onOpen(id)}
                      onRename={() => setRenamed({ id, title: title ?? '' })}
                      onRemove={() => threads.remove(id)}
                    />
                  )}
                </li>
              ))}
            </ul>
          </section>
        ))}
        {threads.hasMore && (
          <button type="button" className="oc-quiet" onClick={() => void threads.more()}>
            {words.more}
          </button>
        )}
      </div>
      <p className="oc-undo" role="status">
        {threads.removed && (
          <>
            {words.removed}{' '}
            <button type="button" onClick={threads.undo}>
              {words.undo}
            </button>
          </>
        )}
      </p>
    </nav>
  )
}

interface RenameFormProps {
  readonly title: string
  readonly onTitle: (title: string) => void
  readonly onCancel: () => void
  /** Takes the new title; null for none. */
  readonly onRename: (title: string | null) => void
}

function RenameForm({ title, onTitle, onCancel, onRename }: RenameFormProps) {
  const words = useWords()
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        onRename(title.trim() === '' ? null : title)
      }}
    >
      <input
        dir="auto"
        aria-label={words.rename}
        maxLength={200}
        autoFocus
        value={title}
        onChange={(event) => onTitle(event.target.value)}
        onKeyDown={({ key }) => key === 'Escape' && onCancel()}
      />
    </form>
  )
}

interface RowProps {
  readonly title: string | undefined
  readonly unread: number
  readonly isCurrent: boolean
  readonly onOpen: () => void
  readonly onRename: () => void
  readonly onRemove: () => void
}

function Row({ title, unread, isCurrent, onOpen, onRename, onRemove }: RowProps) {
  const words = useWords()
  const name = title ?? words.newChat
  return (
    <>
      <button
        type="button"
        className="oc-thread-name"
        aria-current={isCurrent ? 'true' : undefined}
        onClick={onOpen}
        onDoubleClick={onRename}
      >
        <bdi>{straight(name)}</bdi>
        {unread > 0 && <b className="oc-unread">{unread.toLocaleString(words.locale)}</b>}
      </button>
      <button
        type="button"
        className="oc-quiet"
        aria-label={`${words.rename}: ${name}`}
        onClick={onRename}
      >
        ✎
      </button>
      <button
        type="button"
        className="oc-quiet"
        aria-label={`${words.remove}: ${name}`}
        onClick={onRemove}
      >
        ✕
      </button>
    </>
  )
}

const dayMs = 86_400_000

/** The conversations by the day on which they were used last, in their order. */
function byDay(threads: readonly IChatSession[], words: Words): [day: string, IChatSession[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const month = new Intl.DateTimeFormat(words.locale, { month: 'long', year: 'numeric' })
  const days = new Map<string, IChatSession[]>()
  for (const thread of threads) {
    const at = new Date(thread.lastUpdatedAt).getTime()
    const day =
      at >= today
        ? words.today
        : at >= today - dayMs
          ? words.yesterday
          : at >= today - 7 * dayMs
            ? words.week
            : month.format(at)
    const known = days.get(day)
    if (known) known.push(thread)
    else days.set(day, [thread])
  }
  return [...days]
}
