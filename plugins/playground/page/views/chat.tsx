import {
  lazy,
  Suspense,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import {
  useApproval,
  useChat,
  useChatAnnouncer,
  useChatEvents,
  useModels,
  useRun,
  type AnyEvent,
  type Attachment,
  type IChatSession,
  type IMessage,
} from 'oracle-runtime-client'
import {
  isPassing,
  isUnmade,
  newName,
  ThreadList,
  useBranches,
  useInstead,
  useOutbox,
  useThreads,
  Waiting as Waits,
} from 'oracle-runtime-client/ui'
import { Fault } from 'oracle-runtime-client/view'
import type { Oracle } from '../oracle.ts'
import { AttachButton, UploadList } from '../parts/attach.tsx'
import { answersOf, Incognito } from '../parts/remembered.tsx'
import { toldBy, ToldLines, withTold, type Told } from '../parts/told.tsx'
import { useUploads } from '../parts/uploads.ts'
import { go, newChat, to } from '../route.ts'
import { Message } from './message.tsx'
import { components, Times, Waiting } from './tool-card.tsx'
import { Welcome } from './welcome.tsx'

// What most turns do not need is fetched when one does.
const Approval = lazy(async () => ({ default: (await import('./approval.tsx')).Approval }))
const Payment = lazy(async () => ({ default: (await import('../parts/payment.tsx')).Payment }))
const TurnCost = lazy(async () => ({ default: (await import('../parts/payment.tsx')).TurnCost }))

/** A message as it was sent. */
interface Said {
  readonly message: string
  readonly attachments: readonly Attachment[]
}

interface Props {
  readonly oracle: Oracle
  /** False while another view is shown: the chat goes on, and leaves the address alone. */
  readonly isShown: boolean
  readonly sessionId: string
  readonly draft: string
  readonly onDraftSent: () => void
  readonly onEvent: (event: AnyEvent) => void
}

/** The chats on one side, the open one on the other. */
export function ChatView(props: Props) {
  const { oracle, sessionId, isShown } = props
  const threads = useThreads(oracle.did, undefined, sessionId)
  const { threads: listed, error, isLoading, query } = threads
  // The first words make the session of a new chat, so none is stored empty.
  const [unmade, setUnmade] = useState(newName)
  const { made, turns } = useOutbox(oracle.did, isUnmade)
  const newest = made.get(unmade)
  const isNew = sessionId === newChat
  const id = isNew ? (newest ?? '') : sessionId
  useEffect(() => {
    if (newest === undefined || !isShown) return
    // The reader may have opened another chat meanwhile, and stays there.
    if (isNew) go('chat', newest)
    else setUnmade(newName())
  }, [newest, isNew, isShown])
  useEffect(() => {
    if (turns > 0) void threads.refresh() // It then has the new title.
  }, [turns])
  useEffect(() => {
    if (!isShown || sessionId || isLoading || error || query) return
    location.replace(to('chat', listed[0]?.sessionId ?? newChat))
  })
  // A search leaves the open chat out of the list, and its model stays what it was.
  const open = useRef<IChatSession>(undefined)
  open.current =
    listed.find((one) => one.sessionId === id) ??
    (open.current?.sessionId === id ? open.current : undefined)
  return (
    <div className="chat-view">
      <ThreadList
        threads={{
          ...threads,
          remove(gone) {
            threads.remove(gone)
            if (gone === id) go('chat')
          },
        }}
        current={id}
        onOpen={(other) => go('chat', other)}
        onNew={() => go('chat', newChat)}
      />
      <div className="conversation">
        <Fault error={error} />
        {sessionId && (
          <Conversation
            key={id}
            {...props}
            sessionId={id}
            unmade={unmade}
            kept={open.current?.model}
            isListed={open.current !== undefined}
          />
        )}
      </div>
    </div>
  )
}

/**
 * One chat: its messages, and the composer below them. Half of the length is markup; the other half wires the hooks of the
 * client, which share the address of the chat.
 */
function Conversation({
  oracle,
  sessionId,
  draft,
  onDraftSent,
  onEvent,
  kept,
  isListed,
  unmade,
}: Props & {
  /** The model that the session keeps, once the session is listed. */
  kept: string | undefined
  isListed: boolean
  /** Stands for the session of a new chat. */
  unmade: string
}) {
  const address = { oracleDid: oracle.did, sessionId }
  const [unpaid, setUnpaid] = useState<readonly string[]>([])
  const said = useRef<Said>({ message: '', attachments: [] })
  const onPaymentRequiredError = (claimIds: string[]) => setUnpaid(claimIds)
  const chat = useChat({ ...address, onPaymentRequiredError, uiComponents: components })
  const { messages: all, abortStream, isSending, isLoading, error, sendMessageError, status } = chat
  const isIn = useCallback(
    (id: string) => (sessionId ? id === sessionId : isUnmade(id)),
    [sessionId],
  )
  const box = useOutbox(oracle.did, isIn)
  // Words are on their way before the chat has begun its turn: their session may have to be made first.
  const isBusy = isSending || box.isSending
  const messages = useMemo(() => all.filter((message) => !box.hides(message)), [all, box.hides])
  const isWaiting = box.waiting.length > 0 && sendMessageError && isPassing(sendMessageError)
  const run = useRun(address)
  const approval = useApproval(address)
  const announcer = useChatAnnouncer(address)
  const { models, model, setModel } = useModels(oracle.did)
  // A session that was made just now is not in the list yet, and keeps what was chosen before its first words.
  useEffect(() => {
    if (sessionId === '' || isListed) setModel(kept)
  }, [sessionId, isListed, kept])

  const files = useUploads(oracle)
  const [times, setTimes] = useState<ReadonlyMap<string, number>>(new Map())
  const starts = useRef(new Map<string, number>())
  const [text, setText] = useState('')
  const [incognito, setIncognito] = useState(false)
  const answers = answersOf(oracle.hasMemory && !isSending ? messages : [], run.runId)
  const end = useFollow(messages)

  const [told, setTold] = useState<readonly Told[]>([])
  useChatEvents(address, (event) => {
    onEvent(event)
    const line = toldBy(event)
    if (line) setTold((known) => withTold(known, line))
    if (event.eventName !== 'tool_call') return
    const { eventId, status } = event.payload
    if (status === 'isRunning') starts.current.set(eventId, performance.now())
    else {
      const begun = starts.current.get(eventId)
      if (begun !== undefined)
        setTimes((known) => new Map(known).set(eventId, performance.now() - begun))
    }
  })

  const say = (message: string) => {
    if (!message.trim() || isBusy || !files.isReady) return
    const { attachments } = files
    setText('')
    files.clear()
    deliver({ message, attachments })
  }
  const stop = () => {
    if (isSending) void abortStream()
    else if (box.sending) box.outbox.cancel(box.sending.id)
  }
  /** Sends a message, and keeps it for the case that something has to be paid first. */
  const deliver = ({ message, attachments }: Said) => {
    setUnpaid([])
    setTold([])
    said.current = { message, attachments }
    const place = sessionId || (box.waiting[0]?.sessionId ?? unmade)
    if (!box.outbox.add(place, message, attachments)) setText(message)
  }
  const branches = useBranches(oracle.did, sessionId, undefined, isSending ? 0 : messages.length)
  const { instead, question, fault } = useInstead(messages, branches, (id, words) => {
    if (words !== undefined) box.outbox.add(id, words)
    go('chat', id)
  })
  const lastOwn = messages.findLast(isOwn)
  /** What can be done with a message of the chat. */
  const actionsOf = (message: IMessage, nth: number) => {
    const behind = messages.length - 1 - nth
    const again = typeof lastOwn?.content === 'string' ? lastOwn.content : ''
    return {
      versions: isOwn(message) && !isSending ? branches.versionsOf(behind) : undefined,
      canChange: !isBusy && sessionId !== '' && !message.id.startsWith('blob'),
      onVersion: (id: string) => go('chat', id),
      onEdit: (words: string) => void instead(message, words),
      onAgain: behind === 0 && lastOwn && again ? () => void instead(lastOwn, again) : undefined,
    }
  }
  // The first message of a chat was said before the chat had a session, and this component with it.
  const { content, attachments: sent = [] } = messages.findLast(isOwn) ?? {}
  const lastSaid: Said =
    typeof content === 'string' ? { message: content, attachments: sent } : said.current
  useEffect(() => {
    if (!draft || isLoading) return
    onDraftSent()
    say(draft)
  }, [draft, isLoading])

  return (
    <Times value={times}>
      <Waiting value={approval.pending?.toolCallId}>
        <div
          className={incognito ? 'messages incognito' : 'messages'}
          ref={end}
          tabIndex={0}
          role="region"
          aria-label="Messages"
          aria-busy={isLoading}
        >
          {messages.length === 0 && !isLoading && box.waiting.length === 0 && !box.sending && (
            <Welcome oracle={oracle} onSay={(opener) => say(opener)} />
          )}
          {messages.map((message, nth) => (
            <Message
              key={message.id}
              message={message}
              isStreaming={isSending && nth === messages.length - 1}
              runId={answers.get(message.id)}
              newest={run.runId}
              usual={model}
              actions={actionsOf(message, nth)}
            />
          ))}
          {!sessionId && box.sending && (
            <article className="message human" aria-label="You">
              <p className="text" dir="auto">
                {box.sending.text}
              </p>
            </article>
          )}
          <Waits box={box} />
          {question}
          <ToldLines told={told} />
          {status === 'submitted' && (
            <p className="thinking" aria-hidden="true">
              <span />
              <span />
              <span />
            </p>
          )}
          {approval.pending && (
            <Suspense>
              <Approval
                key={approval.pending.toolCallId}
                approval={approval}
                isSending={isSending}
                onAnswer={() => end.current?.focus()}
              />
            </Suspense>
          )}
          {unpaid.length > 0 ? (
            <Suspense>
              <Payment oracleDid={oracle.did} claimIds={unpaid} onPaid={() => deliver(lastSaid)} />
            </Suspense>
          ) : (
            <Fault
              error={fault ?? box.fault ?? (isWaiting ? undefined : (sendMessageError ?? error))}
            />
          )}
        </div>
      </Waiting>
      <p className="hidden" {...announcer} />
      <form
        className="composer"
        onSubmit={(event) => {
          event.preventDefault()
          say(text)
        }}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault()
          files.add(event.dataTransfer.files)
        }}
      >
        <UploadList uploads={files.uploads} onRemove={files.remove} />
        <label className="grow">
          <span className="hidden">Message</span>
          <textarea
            rows={1}
            dir="auto"
            value={text}
            placeholder="Ask something"
            onChange={(event) => setText(event.target.value)}
            onPaste={(event) => {
              const pasted = event.clipboardData.files
              if (pasted.length === 0) return
              event.preventDefault()
              files.add(pasted)
            }}
            onKeyDown={(event) => {
              if (event.nativeEvent.isComposing) return
              if (event.key === 'Escape' && isBusy) return stop()
              if (event.key === 'ArrowUp' && text === '' && lastSaid.message)
                return setText(lastSaid.message)
              if (event.key !== 'Enter' || event.shiftKey) return
              event.preventDefault()
              say(text)
            }}
          />
        </label>
        <div className="row spread wrap">
          <AttachButton onAdd={files.add} />
          {oracle.hasMemory && sessionId && (
            <Incognito sessionId={sessionId} onChange={setIncognito} />
          )}
          <label>
            <span className="hidden">Model</span>
            <select value={model ?? ''} onChange={(event) => setModel(event.target.value)}>
              {models.map(({ id, label }) => (
                <option key={id} value={id}>
                  {label}
                </option>
              ))}
            </select>
          </label>
          <span className="faint">{run.reconnecting ? 'Reconnecting…' : ''}</span>
          {oracle.price && <span className="faint">{oracle.price}</span>}
          {oracle.price && (
            <Suspense>
              <TurnCost oracleDid={oracle.did} runId={run.ended && run.runId} />
            </Suspense>
          )}
          {isBusy ? (
            <button type="button" className="stop" onClick={stop}>
              Stop
            </button>
          ) : (
            <button type="submit" disabled={!text.trim() || !files.isReady}>
              Send
            </button>
          )}
        </div>
      </form>
    </Times>
  )
}

const isOwn = ({ type }: IMessage) => type === 'human'

/** Keeps a list at its end while it grows, unless the reader has scrolled up. */
function useFollow(messages: readonly IMessage[]) {
  const box = useRef<HTMLDivElement>(null)
  const follows = useRef(true)
  useEffect(() => {
    const element = box.current
    if (!element) return
    const look = () => {
      follows.current = element.scrollHeight - element.scrollTop - element.clientHeight < 60
    }
    element.addEventListener('scroll', look, { passive: true })
    return () => element.removeEventListener('scroll', look)
  }, [])
  useLayoutEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [messages])
  return box
}
