import { Fragment, useState } from 'react'
import type { ListedThread, ThreadHit, Threads } from './use-threads.ts'
import { straight } from './markdown/links.ts'
import { isSignedOut, useLook } from './parts.tsx'
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
  const unread = unreadOf(threads)
  return (
    <nav
      className="oc-threads"
      aria-label={words.chats}
      data-state={threads.isLoading ? 'loading' : 'ready'}
    >
      <button type="button" onClick={onNew}>
        {words.newChat}
      </button>
      <SearchField threads={threads} />
      <div
        className="oc-days"
        onScroll={({ currentTarget: box }) => {
          if (box.scrollHeight - box.scrollTop - box.clientHeight < 200) void threads.more()
        }}
      >
        {days.map(([day, sessions]) => (
          <section key={day}>
            <h2>{day}</h2>
            <ul>
              {sessions.map(({ sessionId: id, title, unread = 0, hits = [] }) => (
                <li key={id}>
                  {renamed?.id === id ? (
                    <RenameForm
                      title={renamed.title}
                      onTitle={(now) => setRenamed({ id, title: now })}
                      onCancel={() => setRenamed(undefined)}
                      onRename={(now) => {
                        setRenamed(undefined)
                        // What was written comes back where it is not taken.
                        const back = { id, title: now ?? '' }
                        threads.rename(id, now).catch(() => setRenamed((other) => other ?? back))
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
                  {hits.map((hit) => (
                    <Hit key={hit.messageId} hit={hit} onOpen={() => onOpen(id)} />
                  ))}
                </li>
              ))}
            </ul>
          </section>
        ))}
        {threads.query !== '' && days.length === 0 && !unread && (
          <p role="status">{words.noneFound}</p>
        )}
        {threads.hasMore && (
          <button type="button" className="oc-quiet" onClick={() => void threads.more()}>
            {words.more}
          </button>
        )}
      </div>
      <ListTrouble threads={threads} unread={unread} />
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

/**
 * Why there is no list to be shown. One that is there stays as it was read last, and is read again by itself; who has to sign in is
 * told beside what was said.
 */
function unreadOf({ threads, query, error }: Threads): unknown {
  const isMissing = threads.length === 0 || query !== ''
  return isMissing && !isSignedOut(error) ? error : undefined
}

interface ListTroubleProps {
  readonly threads: Threads
  readonly unread: unknown
}

/** What could not be changed, or why there is no list. */
function ListTrouble({ threads: { fault, refresh }, unread }: ListTroubleProps) {
  const { components: Parts } = useLook()
  const onRetry = fault ? undefined : () => void refresh()
  return <Parts.ErrorCard error={fault ?? unread} onRetry={onRetry} />
}

/** Where somebody types what is looked for. */
function SearchField({ threads }: { readonly threads: Threads }) {
  const words = useWords()
  return (
    <input
      type="search"
      className="oc-search"
      dir="auto"
      aria-label={words.search}
      placeholder={words.search}
      maxLength={200}
      value={threads.query}
      onChange={(event) => threads.search(event.target.value)}
    />
  )
}

/** A piece of a message with the words that were looked for. */
function Hit({ hit, onOpen }: { readonly hit: ThreadHit; readonly onOpen: () => void }) {
  const { snippet, marks } = hit
  const ends = marks.map(([, to]) => to)
  return (
    <button type="button" className="oc-hit" dir="auto" onClick={onOpen}>
      {marks.map(([from, to], nth) => (
        <Fragment key={from}>
          {straight(snippet.slice(ends[nth - 1] ?? 0, from))}
          <mark>{straight(snippet.slice(from, to))}</mark>
        </Fragment>
      ))}
      {straight(snippet.slice(ends.at(-1) ?? 0))}
    </button>
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
  const name = title ?? words.untitled
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
function byDay(threads: readonly ListedThread[], words: Words): [day: string, ListedThread[]][] {
  const today = new Date().setHours(0, 0, 0, 0)
  const month = new Intl.DateTimeFormat(words.locale, { month: 'long', year: 'numeric' })
  const days = new Map<string, ListedThread[]>()
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
