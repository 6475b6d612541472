import { type ReactNode, useCallback, useMemo, useState } from 'react'
import type { IChatSession, Overrides } from '../core/records.ts'
import { useCapabilities } from '../react/use-oracle.ts'
import { Composer } from './composer.tsx'
import { useAsk } from './hooks.ts'
import { type Components, LookContext, ownComponents, useLook } from './parts.tsx'
import type { Renderers } from './markdown/markdown.tsx'
import { ThreadList } from './thread-list.tsx'
import { type Pending, Thread } from './thread.tsx'
import { useThreads } from './use-threads.ts'
import { en } from './languages/en.ts'
import { useWords, type Words, WordsContext } from './words.ts'

/** What a whole chat and its parts have in common. */
export interface ChatRootProps {
  /** By itself the page's, as the browser has it. */
  readonly theme?: 'light' | 'dark' | 'system'
  /** A language of `/ui/languages/*`; English without it. */
  readonly language?: Words
  /** Single words in the place of those of the language. */
  readonly words?: Partial<Words>
  /** Parts of the page's own in the place of the kit's. */
  readonly components?: Partial<Components>
  readonly renderers?: Renderers
  /** The https hosts whose pictures in answers are loaded; none by itself. */
  readonly imageHosts?: readonly string[]
  readonly children?: ReactNode
}

/** Gives the parts below it their words, their look and what the page has replaced. */
export function ChatRoot({
  theme = 'system',
  language = en,
  words,
  components,
  renderers,
  imageHosts,
  children,
}: ChatRootProps) {
  const said = useMemo(() => ({ ...language, ...words }), [language, words])
  const look = useMemo(
    () => ({ components: { ...ownComponents, ...components }, renderers, imageHosts }),
    [components, renderers, imageHosts],
  )
  return (
    <WordsContext.Provider value={said}>
      <LookContext.Provider value={look}>
        <div className="oc-root" data-theme={theme} lang={said.locale}>
          {children}
        </div>
      </LookContext.Provider>
    </WordsContext.Provider>
  )
}

/** The props of `OracleChat`. */
export interface OracleChatProps extends Omit<ChatRootProps, 'children'> {
  readonly oracleDid: string
  readonly overrides?: Overrides
  /** The conversation that is shown; without it the chat keeps that itself. */
  readonly sessionId?: string
  readonly onSession?: (sessionId: string) => void
  /** False: without the list of conversations. */
  readonly threads?: boolean
}

/** A whole chat with an oracle: conversations, messages, tools, approvals, versions, composer. */
export function OracleChat({
  oracleDid,
  overrides,
  sessionId,
  onSession,
  threads: hasThreads = true,
  ...root
}: OracleChatProps) {
  return (
    <ChatRoot {...root}>
      <Chat
        oracleDid={oracleDid}
        overrides={overrides}
        sessionId={sessionId}
        onSession={onSession}
        hasThreads={hasThreads}
      />
    </ChatRoot>
  )
}

type ChatProps = Pick<OracleChatProps, 'oracleDid' | 'overrides' | 'sessionId' | 'onSession'> & {
  readonly hasThreads: boolean
}

function Chat({ oracleDid, overrides, sessionId: given, onSession, hasThreads }: ChatProps) {
  const ask = useAsk(oracleDid, overrides)
  const [own, setOwn] = useState('')
  const [pending, setPending] = useState<Pending>()
  const [fault, setFault] = useState<unknown>()
  const [first, setFirst] = useState<string>()
  const [turns, setTurns] = useState(0)
  const sessionId = given ?? own
  const open = useCallback(
    (id: string, say?: string) => {
      setOwn(id)
      setFault(undefined)
      setPending(say === undefined ? undefined : { sessionId: id, text: say })
      onSession?.(id)
    },
    [onSession],
  )
  /** Makes a session for the first words: none is stored empty. */
  const begin = async (text: string) => {
    setFirst(text)
    setFault(undefined)
    try {
      const made = await ask<IChatSession>('/sessions', { method: 'POST' })
      open(made.sessionId, text)
      setFirst(undefined)
    } catch (thrown) {
      setFault(thrown)
    }
  }
  const thread = sessionId ? (
    <Thread
      key={sessionId}
      oracleDid={oracleDid}
      sessionId={sessionId}
      overrides={overrides}
      onSession={open}
      pending={pending}
      onSent={() => setPending(undefined)}
      onSettled={() => setTurns((count) => count + 1)}
    />
  ) : (
    <NewThread
      oracleDid={oracleDid}
      overrides={overrides}
      first={first}
      fault={fault}
      onFirst={(text) => void begin(text)}
    />
  )
  if (!hasThreads) return <div className="oc-chat">{thread}</div>
  return (
    <div className="oc-chat oc-with-threads">
      <List
        oracleDid={oracleDid}
        overrides={overrides}
        current={sessionId}
        turns={turns}
        onOpen={open}
      />
      {thread}
    </div>
  )
}

interface NewThreadProps extends Pick<ChatProps, 'oracleDid' | 'overrides'> {
  /** The first words, while their session is made. */
  readonly first: string | undefined
  readonly fault: unknown
  readonly onFirst: (text: string) => void
}

/** A conversation in which nothing was said. */
function NewThread({ oracleDid, overrides, first, fault, onFirst }: NewThreadProps) {
  const { components: Parts } = useLook()
  return (
    <section className="oc-thread" data-state="empty">
      <div className="oc-messages">
        {first === undefined ? (
          <Suggestions oracleDid={oracleDid} overrides={overrides} onPick={onFirst} />
        ) : (
          <article className="oc-message oc-human">
            <p className="oc-said" dir="auto">
              {first}
            </p>
          </article>
        )}
        <Parts.ErrorCard
          error={fault}
          onRetry={first === undefined ? undefined : () => onFirst(first)}
        />
      </div>
      <Composer
        name={`${oracleDid} new`}
        isSending={first !== undefined && fault === undefined}
        onSend={onFirst}
        onStop={() => undefined}
      />
    </section>
  )
}

interface ListProps extends Pick<ChatProps, 'oracleDid' | 'overrides'> {
  readonly current: string
  /** How many turns have ended: each may have given its conversation a title. */
  readonly turns: number
  readonly onOpen: (id: string) => void
}

function List({ oracleDid, overrides, current, turns, onOpen }: ListProps) {
  // Another conversation that is shown may be a new one: the list is read again.
  const threads = useThreads(oracleDid, overrides, `${current} ${turns}`)
  return (
    <ThreadList
      threads={threads}
      current={current}
      onOpen={(id) => onOpen(id)}
      onNew={() => onOpen('')}
    />
  )
}

/** The props of `Suggestions`. */
export interface SuggestionsProps {
  readonly oracleDid: string
  readonly overrides?: Overrides
  readonly onPick: (text: string) => void
}

const shownAtOnce = 4

/** What one might say to begin with: examples of what is loaded, and then of what could be. */
export function Suggestions({ oracleDid, overrides, onPick }: SuggestionsProps) {
  const words = useWords()
  const { plugins } = useCapabilities(oracleDid, { overrides })
  const [count, setCount] = useState(shownAtOnce)
  const examples = [...plugins]
    .sort((a, b) => Number(b.visibility === 'always') - Number(a.visibility === 'always'))
    .flatMap(({ examples: own = [] }) => own)
  return (
    <div className="oc-suggestions">
      <p className="oc-welcome">{words.nothingHere}</p>
      <ul aria-label={words.suggestions}>
        {examples.slice(0, count).map((example) => (
          <li key={example}>
            <button type="button" dir="auto" onClick={() => onPick(example)}>
              {example}
            </button>
          </li>
        ))}
      </ul>
      {examples.length > count && (
        <button type="button" className="oc-quiet" onClick={() => setCount(count + shownAtOnce)}>
          …
        </button>
      )}
    </div>
  )
}
