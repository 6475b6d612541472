import {
  createContext,
  lazy,
  memo,
  type ReactNode,
  Suspense,
  useContext,
  useEffect,
  useMemo,
  useState,
} from 'react'
import { useChat, useChatEvents, useRun, type AnyEvent, type IMessage } from 'oracle-runtime-client'
import {
  Composer,
  type ComposerProps,
  Message,
  type MessageProps,
  OracleChat,
} from 'oracle-runtime-client/ui'
import { Boundary } from '../parts/boundary.tsx'
import type { Brought } from '../brought.ts'
import type { Oracle } from '../oracle.ts'
import { go, newChat, routeNow, to } from '../route.ts'

// The code that shows the parts of plugins is fetched where a plugin has one.
const BroughtView = lazy(async () => ({ default: (await import('./brought.tsx')).BroughtView }))

interface Props {
  readonly oracle: Oracle
  /** False while another view is shown: the chat goes on, and leaves the address alone. */
  readonly isShown: boolean
  readonly sessionId: string
  /** What plugins show within a chat. */
  readonly brought: readonly Brought[]
  readonly announce: (sentence: string) => void
  /** Hears which chat is open; the empty name is that of a new one. */
  readonly onSession: (sessionId: string) => void
  readonly onEvent: (event: AnyEvent) => void
}

/** The kit's chat at the address of this page, with the parts that plugins show within it. */
export function ChatView({ sessionId: at, ...props }: Props) {
  const { oracle, isShown, onSession, onEvent } = props
  const sessionId = at === newChat ? '' : at
  useEffect(() => {
    if (isShown && at === '' && !routeNow()[1]) location.replace(to('chat', newChat))
  }, [isShown, at])
  useChatEvents({ oracleDid: oracle.did, sessionId }, onEvent)
  return (
    <Within value={useWithin(props, sessionId)}>
      <OracleChat
        oracleDid={oracle.did}
        sessionId={sessionId}
        onSession={(id) => {
          onSession(id)
          if (isShown) go('chat', id || newChat)
        }}
        components={components}
      />
    </Within>
  )
}

/** Shows the parts of plugins for one place in a chat, given what that place is about. */
type Place = (within: Brought['within'], runId?: string) => ReactNode

interface Around {
  readonly place: Place
  /** The run of each answer, by the id of the answer's last message. */
  readonly runs: ReadonlyMap<string, string>
  /** What a turn costs, in words. */
  readonly price: string | null
}

const PlaceContext = createContext<Around>({ place: () => null, runs: new Map(), price: null })
const Within = PlaceContext.Provider

function useWithin(props: Omit<Props, 'sessionId'>, sessionId: string): Around {
  const { oracle, brought, announce } = props
  const address = { oracleDid: oracle.did, sessionId }
  const { messages, isSending } = useChat({ ...address, onPaymentRequiredError: () => undefined })
  const { runId } = useRun(address)
  // What stands below an answer waits for the end of the answer, and the code of plugins for the end of the first.
  const answered = isSending ? none : messages
  const [isReady, setReady] = useState(false)
  useEffect(() => {
    if (answered.length > 0) setReady(true)
  }, [answered])
  return useMemo(() => {
    const place: Place = (within, about) =>
      isReady &&
      brought
        .filter((view) => view.within === within)
        .map((view) => (
          <Boundary key={view.name}>
            <Suspense>
              <BroughtView
                {...{ view, oracle, sessionId, announce }}
                route={about === undefined ? nowhere : [about]}
              />
            </Suspense>
          </Boundary>
        ))
    return { place, runs: runsOf(answered, runId), price: oracle.price }
  }, [isReady, brought, oracle, sessionId, announce, answered, runId])
}

const nowhere: readonly string[] = []
const none: readonly IMessage[] = []

/** How many answers of a chat have the parts of plugins below them: the newest. */
const mostAnswers = 10

/** The last message of each answer, with its run; of the newest answer the run may stand in no message yet. */
export function runsOf(
  messages: readonly IMessage[],
  newest: string | null,
): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  let runId: string | undefined
  for (const [i, { id, type, run }] of messages.entries()) {
    if (type === 'human') runId = run?.runId
    const next = messages[i + 1]
    if (type !== 'ai' || next?.type === 'ai') continue
    const own = run?.runId ?? runId ?? (next ? undefined : (newest ?? undefined))
    if (own !== undefined) found.set(id, own)
  }
  return new Map([...found].slice(-mostAnswers))
}

const MessageWithParts = memo(function MessageWithParts(props: MessageProps) {
  const { place, runs } = useContext(PlaceContext)
  const runId = runs.get(props.message.id)
  return (
    <>
      <Message {...props} />
      {runId !== undefined && place('answer', runId)}
    </>
  )
})

function ComposerWithParts({ children, ...props }: ComposerProps) {
  const { place, price } = useContext(PlaceContext)
  return (
    <Composer {...props}>
      {children}
      {price && <span className="faint">{price}</span>}
      {place('composer')}
    </Composer>
  )
}

const components = { Message: MessageWithParts, Composer: ComposerWithParts }
