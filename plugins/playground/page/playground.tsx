import { lazy, Suspense, useCallback, useEffect, useRef, useState, type ReactNode } from 'react'
import type { AnyEvent } from 'oracle-runtime-client'
import type { Oracle } from './oracle.ts'
import { labelOf, readBrought, type Brought } from './brought.ts'
import { Bell } from './parts/bell.tsx'
import { Boundary } from './parts/boundary.tsx'
import { newChat, to, useRoute } from './route.ts'
import { ChatView } from './views/chat.tsx'
import { WireView } from './views/wire.tsx'

// Who comes to chat does not wait for the other views.
const BroughtView = lazy(async () => ({
  default: (await import('./views/brought.tsx')).BroughtView,
}))
const ApiView = lazy(async () => ({ default: (await import('./views/api.tsx')).ApiView }))
const CapabilitiesView = lazy(async () => ({
  default: (await import('./views/capabilities.tsx')).CapabilitiesView,
}))
const LedgerView = lazy(async () => ({ default: (await import('./views/ledger.tsx')).LedgerView }))
const PhoneView = lazy(async () => ({ default: (await import('./views/phone.tsx')).PhoneView }))
const RegistryView = lazy(async () => ({
  default: (await import('./views/registry.tsx')).RegistryView,
}))
const RunsView = lazy(async () => ({ default: (await import('./views/runs.tsx')).RunsView }))
const SamplingView = lazy(async () => ({
  default: (await import('./views/sampling.tsx')).SamplingView,
}))

const views = {
  chat: 'Chat',
  runs: 'Runs',
  capabilities: 'Capabilities',
  wire: 'Wire',
  phone: 'Phone',
  sampling: 'Sampling',
  registry: 'Registry',
  ledger: 'Ledger',
  api: 'API',
} as const
type View = keyof typeof views

/**
 * The frame around the views. It keeps what several views need: the chat, and what the agent loaded in the chat. Half of the
 * length is the markup of the frame.
 */
export function Playground({ oracle }: { oracle: Oracle }) {
  const [name = '', detail = '', ...rest] = useRoute()
  const found = useBrought(oracle)
  const brought = found ?? none
  const other = brought.find((one) => one.name === name)
  const view: View = Object.hasOwn(views, name) ? (name as View) : 'chat'
  const [said, announce] = useState('')
  const [sessionId, setSessionId] = useState('')
  const [loadedNow, setLoadedNow] = useState<ReadonlySet<string>>(new Set())
  const [draft, setDraft] = useState('')
  const isChat = name === 'chat' && detail !== '' && detail !== newChat
  if (isChat && detail !== sessionId) setSessionId(detail)

  const hear = useCallback((event: AnyEvent) => {
    if (event.eventName === 'run') setLoadedNow(new Set())
    if (event.eventName !== 'tool_call' || event.payload.toolName !== 'load_capability') return
    const { names } = event.payload.args
    if (event.payload.status === 'done' && Array.isArray(names))
      setLoadedNow((known) => new Set([...known, ...names.map(String)]))
  }, [])

  // The chat goes to an address of its own, so a name that a plugin may bring waits until that is known.
  const isOpen = found === undefined && name !== '' && !Object.hasOwn(views, name)
  const shownName = other?.name ?? view
  const tabs = [
    ...Object.entries(views),
    ...brought.map((one) => [one.name, labelOf(one)] as const),
  ]
  const here = useRef<HTMLAnchorElement>(null)
  useEffect(() => {
    here.current?.scrollIntoView({ inline: 'center', block: 'nearest' })
  }, [shownName])

  const shown: Record<View, () => ReactNode> = {
    chat: () => (
      <ChatView
        oracle={oracle}
        sessionId={detail}
        draft={draft}
        onDraftSent={() => setDraft('')}
        onEvent={hear}
      />
    ),
    runs: () => <RunsView sessionId={detail || sessionId} runId={rest[0]} />,
    capabilities: () => (
      <CapabilitiesView
        oracle={oracle}
        sessionId={sessionId}
        loadedNow={loadedNow}
        onAsk={setDraft}
      />
    ),
    wire: () => <WireView />,
    phone: () => <PhoneView />,
    sampling: () => <SamplingView />,
    registry: () => <RegistryView oracle={oracle} selected={detail || undefined} />,
    ledger: () => <LedgerView oracle={oracle} />,
    api: () => <ApiView />,
  }

  return (
    <div className="app">
      <a className="skip" href="#main" onClick={focusMain}>
        Skip to the view
      </a>
      <header className="side">
        <div className="brand">
          <img src="icon.svg" alt="" width="24" height="24" />
          <p>{oracle.name}</p>
          <Bell oracle={oracle} sessionId={view === 'chat' ? detail : ''} />
        </div>
        <nav aria-label="Views">
          <ul>
            {tabs.map(([key, label]) => (
              <li key={key}>
                <a
                  href={key === 'chat' && sessionId ? to('chat', sessionId) : to(key)}
                  ref={key === shownName ? here : undefined}
                  aria-current={key === shownName ? 'page' : undefined}
                >
                  {label}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <p className="foot">
          oracle-runtime {oracle.runtime}
          <br />
          model {oracle.model}
          {oracle.price && (
            <>
              <br />
              {oracle.price}
            </>
          )}
        </p>
      </header>
      <main id="main" tabIndex={-1} className={shownName}>
        <Title text={other ? labelOf(other) : views[view]} isQuiet={shownName === 'chat'} />
        <Boundary key={shownName}>
          {isOpen && !other ? (
            <p role="status">Asking…</p>
          ) : (
            <Suspense fallback={<p role="status">Asking…</p>}>
              {other ? (
                <BroughtView
                  view={other}
                  oracle={oracle}
                  sessionId={sessionId}
                  route={[detail, ...rest].filter((part) => part !== '')}
                  announce={announce}
                />
              ) : (
                shown[view]()
              )}
            </Suspense>
          )}
        </Boundary>
        <p className="hidden" role="status">
          {said}
        </p>
      </main>
    </div>
  )
}

const none: readonly Brought[] = []

/** What plugins bring to this page, once it is known. A name that the page has itself stays the page's. */
function useBrought(oracle: Oracle): readonly Brought[] | undefined {
  const [brought, setBrought] = useState<readonly Brought[]>()
  useEffect(() => {
    void readBrought(oracle).then((all) =>
      setBrought(all.filter(({ name }) => !Object.hasOwn(views, name))),
    )
  }, [oracle])
  return brought
}

/** The view's heading. It takes the focus when the view changes, so that the keyboard and a screen reader start at the view. */
function Title({ text, isQuiet }: { text: string; isQuiet: boolean }) {
  const heading = useRef<HTMLHeadingElement>(null)
  const before = useRef(text)
  useEffect(() => {
    if (before.current !== text) heading.current?.focus({ preventScroll: true })
    before.current = text
  }, [text])
  return (
    <h1 ref={heading} tabIndex={-1} className={isQuiet ? 'hidden' : ''}>
      {text}
    </h1>
  )
}

function focusMain(event: { preventDefault(): void }) {
  event.preventDefault() // The hash of the address names the view, so a link within the page must not change it.
  document.getElementById('main')?.focus()
}
