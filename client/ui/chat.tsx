import {
  type ReactNode,
  useCallback,
  useEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from 'react'
import type { IBrowserTools, UIComponents } from '../core/page.ts'
import type { Attachment, Capability, Overrides } from '../core/records.ts'
import { useCapabilities, useModels } from '../react/use-oracle.ts'
import { useClient } from '../react/provider.ts'
import { AddressContext } from './address.ts'
import { Composer } from './composer.tsx'
import { useLayout } from './follow.ts'
import { moveDraft } from './hooks.ts'
import { ModelPicker } from './model-picker.tsx'
import { NotKept } from './not-kept.tsx'
import { isUnmade, newName } from './outbox.ts'
import { type Components, LookContext, ownComponents, useLook } from './parts.tsx'
import type { Renderers } from './markdown/markdown.tsx'
import { ThreadList } from './thread-list.tsx'
import { Thread } from './thread.tsx'
import { Shortcuts } from './shortcuts.tsx'
import { useReadAgain } from './read-again.ts'
import { shelfOf, useFiles } from './use-files.ts'
import { useOutbox } from './use-outbox.ts'
import { useThreads } from './use-threads.ts'
import { useLanguage } from './use-language.ts'
import { useWriting } from './writing.ts'
import { Waiting } from './waiting.tsx'
import { useWords, type Words, WordsContext } from './words.ts'

/** What a whole chat and its parts have in common. */
export interface ChatRootProps {
  /** By itself the page's, as the browser has it. */
  readonly theme?: 'light' | 'dark' | 'system'
  /** A language of `/ui/languages/*`, in the place of the one that `locale` names. */
  readonly language?: Words
  /** The language by its tag, as `sw` or `fr-CA`; by itself the browser's. What the kit has not is English. */
  readonly locale?: string
  /** Single words in the place of those of the language. */
  readonly words?: Partial<Words>
  /** Parts of the page's own in the place of the kit's. */
  readonly components?: Partial<Components>
  readonly renderers?: Renderers
  /** The https hosts whose pictures in answers are loaded; none by itself. */
  readonly imageHosts?: readonly string[]
  /** Components that the agent may show, by name: each gets the arguments as its props. */
  readonly uiComponents?: UIComponents
  /** Tools that run in this page. */
  readonly browserTools?: IBrowserTools
  readonly children?: ReactNode
}

/** Gives the parts below it their words, their look and what the page has replaced. */
export function ChatRoot({
  theme = 'system',
  language: given,
  locale,
  words,
  components,
  renderers,
  imageHosts,
  uiComponents,
  browserTools,
  children,
}: ChatRootProps) {
  const language = useLanguage(given, locale)
  const said = useMemo(() => ({ ...language, ...words }), [language, words])
  const look = useMemo(
    () => ({
      components: { ...ownComponents, ...components },
      ...{ renderers, imageHosts, uiComponents, browserTools },
    }),
    [components, renderers, imageHosts, uiComponents, browserTools],
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
  const { did } = useClient().wallet
  return (
    <ChatRoot {...root}>
      <Chat
        key={`${did} ${oracleDid}`} // another user, or another oracle, gets nothing of the first one’s
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
  const [own, setOwn] = useState('')
  const [unmade, setUnmade] = useState(newName)
  const [, drawAgain] = useReducer((count: number) => count + 1, 0)
  const box = useOutbox(oracleDid, isUnmade, overrides)
  const made = box.made.get(unmade)
  // The words of a new conversation are shown in the session that they have got, unless another one is open by now.
  const chosen = given ?? own
  const sessionId = chosen || (made ?? '')
  const open = useCallback(
    (id: string) => {
      setOwn(id)
      onSession?.(id)
    },
    [onSession],
  )
  const begin = () => {
    if (made !== undefined) setUnmade(newName())
    open('')
  }
  useEffect(() => {
    if (made === undefined) return
    if (chosen === '') open(made)
    else setUnmade(newName())
  }, [made, chosen])
  const client = useClient()
  // What was chosen and typed while the session was made goes along into its conversation, before that looks for either.
  if (made !== undefined) shelfOf(client, oracleDid, overrides, made, unmade)
  const thread = sessionId ? (
    <Thread
      key={sessionId}
      oracleDid={oracleDid}
      sessionId={sessionId}
      overrides={overrides}
      onSession={open}
    />
  ) : (
    <NewThread oracleDid={oracleDid} overrides={overrides} name={unmade} />
  )
  const frame = useRef<HTMLDivElement>(null)
  const writing = useWriting(frame, sessionId || unmade)
  useLayout(() => {
    const of = (name: string) => `${client.wallet.did} ${oracleDid} ${name}`
    if (made !== undefined && chosen === '') moveDraft(of('new'), of(made), writing.typed())
  }, [made])
  const keys = (
    <Shortcuts
      frame={frame}
      onNew={() => {
        begin()
        writing.write()
      }}
      onSearch={() => frame.current?.querySelector<HTMLElement>('.oc-search')?.focus()}
    />
  )
  return (
    <div
      className={hasThreads ? 'oc-chat oc-with-threads' : 'oc-chat'}
      ref={frame}
      {...writing.props}
    >
      {hasThreads && (
        <List
          oracleDid={oracleDid}
          overrides={overrides}
          current={sessionId}
          turns={box.turns}
          onOpen={open}
          onNew={begin}
          onModel={drawAgain}
        />
      )}
      {thread}
      {keys}
    </div>
  )
}

interface NewThreadProps extends Pick<ChatProps, 'oracleDid' | 'overrides'> {
  /** What stands for the session until it is made. */
  readonly name: string
}

/** A conversation in which nothing was said: the first words make its session, so none is stored empty. */
function NewThread({ oracleDid, overrides, name }: NewThreadProps) {
  const { components: Parts } = useLook()
  const box = useOutbox(oracleDid, isUnmade, overrides)
  const { waiting, isSending, sending, fault, outbox } = box
  const files = useFiles(oracleDid, overrides, name)
  const { Composer: Field = Composer, Suggestions: Ideas = Suggestions } = Parts
  const { ModelPicker: Picker = ModelPicker, Waiting: Queue = Waiting } = Parts
  const say = (text: string, attachments?: readonly Attachment[]) =>
    outbox.add(waiting[0]?.sessionId ?? name, text, attachments)
  const address = useMemo(
    () => ({ oracleDid, overrides, sessionId: '' }),
    [oracleDid, overrides?.baseUrl],
  )
  return (
    <AddressContext.Provider value={address}>
      <section className="oc-thread" data-state="empty">
        <div className="oc-messages" tabIndex={-1}>
          {waiting.length === 0 && !isSending && (
            <Ideas oracleDid={oracleDid} overrides={overrides} onPick={(text) => void say(text)} />
          )}
          {sending && (
            <article className="oc-message oc-human">
              <p className="oc-said" dir="auto">
                {sending.text}
              </p>
            </article>
          )}
          <Queue box={box} />
          <Parts.ErrorCard error={fault} onRetry={outbox.tryNow} />
        </div>
        <NotKept />
        <Field
          name={`${oracleDid} new`}
          isSending={isSending && fault === undefined}
          files={files}
          onSend={say}
          onStop={() => sending && outbox.cancel(sending.id)}
        >
          <Picker oracleDid={oracleDid} overrides={overrides} />
        </Field>
      </section>
    </AddressContext.Provider>
  )
}

interface ListProps extends Pick<ChatProps, 'oracleDid' | 'overrides'> {
  readonly current: string
  /** How many turns have ended: each may have given its conversation a title. */
  readonly turns: number
  readonly onOpen: (id: string) => void
  readonly onNew: () => void
  /** Told when the open conversation has brought another model: the choice beside the composer shows it. */
  readonly onModel: () => void
}

function List({ oracleDid, overrides, current, turns, onOpen, onNew, onModel }: ListProps) {
  const client = useClient()
  // Another conversation that is shown may be a new one: the list is read again.
  const threads = useThreads(oracleDid, overrides, `${current} ${turns}`, (deleted) => {
    // Another tab, or a device, has deleted what is open here: reading it again says so.
    if (deleted.has(current))
      void client.chat({ oracleDid, sessionId: current, overrides }).refetchMessages()
  })
  const { components } = useLook()
  const { setModel } = useModels(oracleDid, overrides)
  // A search leaves the open conversation out of the list, and its model stays what it was.
  const open = threads.threads.find(({ sessionId }) => sessionId === current)
  useEffect(() => {
    if (current !== '' && !open) return
    setModel(open?.model)
    onModel()
  }, [current, open?.model])
  const Threads = components.ThreadList ?? ThreadList
  // A deletion hides at once, and so does the conversation that is open.
  const remove = (id: string) => {
    threads.remove(id)
    if (id === current) onNew()
  }
  return (
    <Threads
      threads={{ ...threads, remove }}
      current={current}
      onOpen={(id) => onOpen(id)}
      onNew={onNew}
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

/** The first example of each plugin that the oracle can reach, those that are loaded before the others; then the second ones. */
function examplesOf(plugins: readonly Capability[]): readonly string[] {
  const own = plugins
    .filter(({ state, visibility }) => reachable.includes(state) && visibility !== 'silent')
    .toSorted((a, b) => Number(b.visibility === 'always') - Number(a.visibility === 'always'))
    .flatMap(({ examples = [] }) => examples.map((text, nth) => ({ text, nth })))
    .toSorted((a, b) => a.nth - b.nth)
  return [...new Set(own.map(({ text }) => text))]
}

const reachable: readonly string[] = ['loaded', 'available']

/** What one might say to begin with: examples of what is loaded, and then of what could be. */
export function Suggestions({ oracleDid, overrides, onPick }: SuggestionsProps) {
  const words = useWords()
  const { plugins, error, refetch } = useCapabilities(oracleDid, { overrides })
  useReadAgain(error, () => void refetch().catch(() => undefined))
  const [count, setCount] = useState(shownAtOnce)
  const examples = examplesOf(plugins)
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
          {words.others}
        </button>
      )}
    </div>
  )
}
