import { createContext, memo, useContext, useEffect, useMemo, useRef, useState } from 'react'
import { useChat, useChatEvents, useRun, type AnyEvent } from 'oracle-runtime-client'
import {
  Composer,
  isUnmade,
  Message,
  newName,
  OracleChat,
  useAddress,
  useOutbox,
  type ComposerProps,
  type MessageProps,
} from 'oracle-runtime-client/ui'
import type { Brought } from '../brought.ts'
import { ask, type Oracle } from '../oracle.ts'
import { answersOf } from '../parts/answers.ts'
import { BringingProvider, Slots, useBroughtComponents } from '../parts/slots.tsx'
import { go, newChat, to } from '../route.ts'

interface Props {
  readonly oracle: Oracle
  readonly brought: readonly Brought[]
  /** False while another view is shown: the chat goes on, and leaves the address alone. */
  readonly isShown: boolean
  readonly sessionId: string
  /** Hears which chat is open while another view is shown. */
  readonly onSession: (sessionId: string) => void
  readonly draft: string
  readonly onDraftSent: () => void
  readonly onEvent: (event: AnyEvent) => void
  readonly announce: (sentence: string) => void
}

/** The kit's chat, with what plugins bring to it; the address of the page says which chat is open. */
export function ChatView(props: Props) {
  const { oracle, brought, isShown, announce } = props
  const sessionId = props.sessionId === newChat ? '' : props.sessionId
  const bringing = useMemo(() => ({ oracle, brought, announce }), [oracle, brought, announce])
  const uiComponents = useBroughtComponents(bringing)
  const [answers, setAnswers] = useState(noAnswers)
  const shared = useMemo(
    () => ({ onEvent: props.onEvent, setAnswers, price: oracle.price }),
    [props.onEvent, oracle],
  )
  useNewest(isShown && props.sessionId === '')
  useDraftOf(props, sessionId)
  return (
    <BringingProvider value={bringing}>
      <SharedContext.Provider value={shared}>
        <AnswersContext.Provider value={answers}>
          <OracleChat
            oracleDid={oracle.did}
            sessionId={sessionId}
            onSession={(id) => (isShown ? go('chat', id || newChat) : props.onSession(id))}
            components={components}
            uiComponents={uiComponents}
          />
        </AnswersContext.Provider>
      </SharedContext.Provider>
    </BringingProvider>
  )
}

/** Opens the chat that was used last, or a new one, where the address names none. */
function useNewest(isWanted: boolean) {
  useEffect(() => {
    if (!isWanted) return
    let isHere = true
    const open = (id = newChat) => isHere && location.replace(to('chat', id))
    ask<{ sessions: readonly { sessionId: string }[] }>('/sessions?limit=1&branches=newest').then(
      ({ sessions }) => open(sessions[0]?.sessionId),
      () => open(),
    )
    return () => void (isHere = false)
  }, [isWanted])
}

/** Says what another view has put together, in the open chat or in a new one. */
function useDraftOf({ oracle, draft, onDraftSent }: Props, sessionId: string) {
  const { outbox, made } = useOutbox(oracle.did, isUnmade)
  const [name, setName] = useState('')
  const said = useRef('')
  useEffect(() => {
    if (draft === '' || said.current === draft) return void (said.current = draft)
    said.current = draft
    const place = sessionId || newName()
    outbox.add(place, draft, [])
    if (sessionId === '') setName(place)
    onDraftSent()
  }, [draft])
  const id = made.get(name)
  useEffect(() => {
    if (id !== undefined) go('chat', id)
  }, [id])
}

const noAnswers: ReadonlyMap<string, string> = new Map()
/** Which run each of the newest answers comes from, by the id of its last message. */
const AnswersContext = createContext(noAnswers)

interface Shared {
  readonly price: string | null
  readonly onEvent: (event: AnyEvent) => void
  readonly setAnswers: (answers: ReadonlyMap<string, string>) => void
}

const SharedContext = createContext<Shared>({ price: null, onEvent() {}, setAnswers() {} })

/** A message of the kit, with what plugins say of the answer. */
const PageMessage = memo(function PageMessage(props: MessageProps) {
  const runId = useContext(AnswersContext).get(props.message.id)
  const { sessionId } = useAddress()
  const about = useMemo(() => ({ runId }), [runId])
  return (
    <>
      <Message {...props} />
      {runId !== undefined && <Slots place="answer" sessionId={sessionId} about={about} />}
    </>
  )
})

/** The kit's composer, with what a turn costs and what plugins bring beside it. */
function PageComposer({ children, ...props }: ComposerProps) {
  const { sessionId } = useAddress()
  const { price } = useContext(SharedContext)
  return (
    <Composer {...props}>
      {children}
      {price && <span className="faint">{price}</span>}
      {sessionId && <InChat />}
    </Composer>
  )
}

/** Hears the open chat for the page around it. */
function InChat() {
  const address = useAddress()
  const { onEvent, setAnswers } = useContext(SharedContext)
  const { messages, isSending } = useChat({ ...address, onPaymentRequiredError: () => {} })
  const { runId, ended } = useRun(address)
  useChatEvents(address, onEvent)
  useEffect(
    () => setAnswers(isSending ? noAnswers : answersOf(messages, runId)),
    [messages, isSending, runId],
  )
  const over = ended ? runId : null
  const about = useMemo(() => ({ runId: over }), [over])
  return <Slots place="composer" sessionId={address.sessionId} about={about} />
}

const components = { Message: PageMessage, Composer: PageComposer }
