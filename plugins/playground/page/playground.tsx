import {
  lazy,
  type ReactNode,
  Suspense,
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { AnyEvent } from 'oracle-runtime-client'
import { ViewRoot } from 'oracle-runtime-client/view'
import type { Oracle } from './oracle.ts'
import { labelOf, readBrought, type Brought } from './brought.ts'
import { Bell } from './frame/bell.tsx'
import { Pane } from './frame/pane.tsx'
import { Rail } from './frame/rail.tsx'
import { hostOf } from './host.ts'
import { go, newChat, to, useRoute } from './route.ts'
import { ChatView } from './views/chat.tsx'

// Who comes to chat does not wait for the other views.
const BroughtView = lazy(async () => ({
  default: (await import('./views/brought.tsx')).BroughtView,
}))
const ApiView = lazy(async () => ({ default: (await import('./views/api.tsx')).ApiView }))
const CapabilitiesView = lazy(async () => ({
  default: (await import('./views/capabilities.tsx')).CapabilitiesView,
}))
const WireView = lazy(async () => ({ default: (await import('./views/wire.tsx')).WireView }))
const RunsView = lazy(async () => ({ default: (await import('./views/runs.tsx')).RunsView }))

const views = {
  chat: 'Chat',
  runs: 'Runs',
  capabilities: 'Capabilities',
  wire: 'Wire',
  api: 'API',
} as const
type View = keyof typeof views
const isOwn = (name: string): name is View => Object.hasOwn(views, name)

/**
 * The frame around the views. It keeps what several views need: the chat, and what the agent loaded in the chat. Half of the
 * length is the markup of the frame.
 */
export function Playground({ oracle }: { oracle: Oracle }) {
  const [name = '', ...route] = useRoute()
  const found = useBrought(oracle)
  const brought = useMemo(() => (found ?? none).filter(({ within }) => !within), [found])
  const parts = useMemo(() => (found ?? none).filter(({ within }) => within), [found])
  const other = brought.find((one) => one.name === name)
  const [said, announce] = useState('')
  const [sessionId, setSessionId] = useState('')
  const [loadedNow, setLoadedNow] = useState<ReadonlySet<string>>(new Set())
  const [isFolded, setFolded] = useFolding()
  const open = name === 'chat' && route[0] !== newChat ? route[0] : undefined
  if (open && open !== sessionId) setSessionId(open)

  const hear = useCallback((event: AnyEvent) => {
    if (event.eventName === 'run') setLoadedNow(new Set())
    if (event.eventName !== 'tool_call' || event.payload.toolName !== 'load_capability') return
    const { names } = event.payload.args
    if (event.payload.status === 'done' && Array.isArray(names))
      setLoadedNow((known) => new Set([...known, ...names.map(String)]))
  }, [])

  // The chat goes to an address of its own, so a name that a plugin may bring waits until that is known.
  const isAsking = found === undefined && name !== '' && !isOwn(name)
  const shown = isAsking ? '' : (other?.name ?? (isOwn(name) ? name : 'chat'))
  const opened = useOpened(shown, route)
  const tabs = [
    ...Object.entries(views),
    ...brought.map((one) => [one.name, labelOf(one)] as const),
  ].map(([key, label]) => ({
    name: key,
    label,
    href: key === 'chat' && sessionId ? to('chat', sessionId) : to(key, ...(opened.get(key) ?? [])),
  }))

  /** Says something in the chat that was open last, else in a new one, and shows that chat. */
  const say = async (message: string) => {
    const id = sessionId || (await oracle.client.sessions(oracle.did).createSession()).sessionId
    void oracle.client.chat({ oracleDid: oracle.did, sessionId: id }).sendMessage(message)
    go('chat', id)
  }

  const host = useOwnHost(oracle, sessionId, announce)
  const shownView = (view: View, [detail = '', more]: readonly string[]): ReactNode => {
    if (view === 'chat')
      return (
        <ChatView
          oracle={oracle}
          sessionId={detail}
          isShown={shown === 'chat'}
          brought={parts}
          announce={announce}
          onSession={setSessionId}
          onEvent={hear}
        />
      )
    if (view === 'runs')
      return <RunsView sessionId={detail || sessionId} runId={more} isShown={shown === 'runs'} />
    if (view === 'wire') return <WireView />
    if (view === 'api') return <ApiView />
    return (
      <CapabilitiesView
        oracle={oracle}
        sessionId={sessionId}
        loadedNow={loadedNow}
        onAsk={(message) => void say(message).catch(({ message: why }) => announce(why))}
      />
    )
  }

  return (
    <div className={isFolded ? 'app folded' : 'app'}>
      <a className="skip" href="#main" onClick={focusMain}>
        Skip to the view
      </a>
      <header className="side">
        <img src="icon.svg" alt={oracle.name} title={oracle.name} width="28" height="28" />
        <Rail tabs={tabs} shown={shown} />
        <div className="below">
          <Bell oracle={oracle} sessionId={shown === 'chat' ? (open ?? '') : ''} />
          <button
            type="button"
            className="quiet fold"
            aria-pressed={isFolded}
            aria-keyshortcuts="Control+B Meta+B"
            title="Fold the list of chats (Ctrl B)"
            onClick={() => setFolded(!isFolded)}
          >
            <span aria-hidden="true">{isFolded ? '»' : '«'}</span>
            <span className="hidden">Fold the list of chats</span>
          </button>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {!isSecureContext && (
          <p className="plain" role="note">
            Plain HTTP: whoever is between this page and the server can read along.
          </p>
        )}
        {isAsking && <p role="status">Asking…</p>}
        {[...opened].map(([key, at]) => {
          const view = brought.find((one) => one.name === key)
          if (!view && !isOwn(key)) return null
          return (
            <Pane
              key={key}
              name={view ? 'plugin' : key}
              title={view ? labelOf(view) : isOwn(key) ? views[key] : ''}
              isQuiet={key === 'chat'}
              isShown={key === shown}
            >
              <Suspense fallback={<p role="status">Asking…</p>}>
                {view ? (
                  <BroughtView
                    view={view}
                    oracle={oracle}
                    sessionId={sessionId}
                    route={at}
                    announce={announce}
                  />
                ) : (
                  <ViewRoot host={host}>{isOwn(key) && shownView(key, at)}</ViewRoot>
                )}
              </Suspense>
            </Pane>
          )
        })}
        <p className="hidden" role="status">
          {said}
        </p>
      </main>
    </div>
  )
}

const none: readonly Brought[] = []
const nowhere: readonly string[] = []

/** What plugins bring to this page, once it is known. A name that the page has itself stays the page's. */
function useBrought(oracle: Oracle): readonly Brought[] | undefined {
  const [brought, setBrought] = useState<readonly Brought[]>()
  useEffect(() => {
    void readBrought(oracle).then((all) => setBrought(all.filter(({ name }) => !isOwn(name))))
  }, [oracle])
  return brought
}

type Opened = ReadonlyMap<string, readonly string[]>

/** The views that were opened, each with what stood last in the address behind its name. */
function useOpened(shown: string, route: readonly string[]): Opened {
  const [opened, setOpened] = useState<Opened>(new Map())
  const at = route.filter((part) => part !== '')
  if (shown === '' || opened.get(shown)?.join('/') === at.join('/')) return opened
  const now = new Map(opened).set(shown, at)
  setOpened(now)
  return now
}

/** The page's own views are given what the views of plugins are given. */
function useOwnHost(oracle: Oracle, sessionId: string, announce: (sentence: string) => void) {
  const latest = useRef({ sessionId, route: nowhere, announce })
  latest.current = { ...latest.current, sessionId, announce }
  return useMemo(() => hostOf('page', oracle, latest), [oracle])
}

/** Whether the list of chats is folded away; Ctrl or ⌘ with B folds it and brings it back. */
function useFolding() {
  // A narrow page begins with the chat itself.
  const [isFolded, setFolded] = useState(() => matchMedia('(max-width: 46rem)').matches)
  useEffect(() => {
    const hear = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'b') return
      event.preventDefault()
      setFolded((was) => !was)
    }
    addEventListener('keydown', hear)
    return () => removeEventListener('keydown', hear)
  }, [])
  return [isFolded, setFolded] as const
}

function focusMain(event: { preventDefault(): void }) {
  event.preventDefault() // The hash of the address names the view, so a link within the page must not change it.
  document.getElementById('main')?.focus()
}
