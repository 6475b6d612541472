import { useEffect, useLayoutEffect, useRef, useState } from 'react'
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
import { ThreadList, useThreads } from 'oracle-runtime-client/ui'
import { ask, type Oracle } from '../oracle.ts'
import { AttachButton, UploadList } from '../parts/attach.tsx'
import { Fault } from '../parts/fault.tsx'
import { Payment, TurnCost } from '../parts/payment.tsx'
import { answersOf, Incognito } from '../parts/remembered.tsx'
import { toldBy, ToldLines, withTold, type Told } from '../parts/told.tsx'
import { useUploads } from '../parts/uploads.ts'
import { go, to } from '../route.ts'
import { Approval } from './approval.tsx'
import { Message } from './message.tsx'
import { components, Times, Waiting } from './tool-card.tsx'
import { Welcome } from './welcome.tsx'

/** A message as it was sent. */
interface Said {
  readonly message: string
  readonly attachments: readonly Attachment[]
}

interface Props {
  readonly oracle: Oracle
  readonly sessionId: string
  readonly draft: string
  readonly onDraftSent: () => void
  readonly onEvent: (event: AnyEvent) => void
}

/** The chats on one side, the open one on the other. */
export function ChatView(props: Props) {
  const { oracle, sessionId } = props
  const threads = useThreads(oracle.did, undefined, sessionId)
  const { threads: listed, error, isLoading, query } = threads
  const [fault, setFault] = useState<unknown>()
  const isHere = useRef(true)
  useEffect(() => {
    isHere.current = true
    return () => void (isHere.current = false)
  }, [])
  const begin = async () => {
    try {
      const session = await ask<IChatSession>('/sessions', { method: 'POST' })
      // The reader may have opened another view meanwhile, and stays there.
      if (isHere.current) go('chat', session.sessionId)
    } catch (thrown) {
      setFault(thrown)
    }
  }
  const beginning = useRef(false)
  useEffect(() => {
    if (sessionId || isLoading || error || query || beginning.current) return
    const [latest] = listed
    if (latest) return void location.replace(to('chat', latest.sessionId))
    beginning.current = true
    void begin().finally(() => (beginning.current = false))
  })
  // A search leaves the open chat out of the list, and its model stays what it was.
  const open = useRef<IChatSession>(undefined)
  open.current =
    listed.find((one) => one.sessionId === sessionId) ??
    (open.current?.sessionId === sessionId ? open.current : undefined)
  return (
    <div className="chat-view">
      <ThreadList
        threads={{
          ...threads,
          remove(id) {
            threads.remove(id)
            if (id === sessionId) go('chat')
          },
        }}
        current={sessionId}
        onOpen={(id) => go('chat', id)}
        onNew={() => void begin()}
      />
      <div className="conversation">
        <Fault error={fault ?? error} />
        {sessionId && (
          <Conversation
            key={sessionId}
            {...props}
            kept={open.current?.model}
            onSettled={threads.refresh}
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
  onSettled,
}: Props & {
  /** The model that the session keeps. */
  kept: string | undefined
  onSettled: () => Promise<void>
}) {
  const address = { oracleDid: oracle.did, sessionId }
  const [unpaid, setUnpaid] = useState<readonly string[]>([])
  const said = useRef<Said>({ message: '', attachments: [] })
  const onPaymentRequiredError = (claimIds: string[]) => setUnpaid(claimIds)
  const chat = useChat({ ...address, onPaymentRequiredError, uiComponents: components })
  const {
    messages,
    sendMessage,
    abortStream,
    isSending,
    isLoading,
    error,
    sendMessageError,
    status,
  } = chat
  const run = useRun(address)
  const approval = useApproval(address)
  const announcer = useChatAnnouncer(address)
  const { models, model, setModel } = useModels(oracle.did)
  useEffect(() => setModel(kept), [sessionId, kept])

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

  const say = async (message: string) => {
    if (!message.trim() || isSending || !files.isReady) return
    const { attachments } = files
    setText('')
    files.clear()
    await deliver({ message, attachments })
  }
  /** Sends a message, and keeps it for the case that something has to be paid first. */
  const deliver = async ({ message, attachments }: Said) => {
    setUnpaid([])
    setTold([])
    said.current = { message, attachments }
    await sendMessage(message, attachments.length > 0 ? { attachments } : {})
    await onSettled().catch(() => {}) // The list of chats then shows the new title; when the reading fails, it keeps the old one.
  }
  useEffect(() => {
    if (!draft || isLoading) return
    onDraftSent()
    void say(draft)
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
          {messages.length === 0 && !isLoading && (
            <Welcome oracle={oracle} onSay={(opener) => void say(opener)} />
          )}
          {messages.map((message, nth) => (
            <Message
              key={message.id}
              message={message}
              isStreaming={isSending && nth === messages.length - 1}
              runId={answers.get(message.id)}
              newest={run.runId}
              usual={model}
            />
          ))}
          <ToldLines told={told} />
          {status === 'submitted' && (
            <p className="thinking" aria-hidden="true">
              <span />
              <span />
              <span />
            </p>
          )}
          {approval.pending && (
            <Approval
              key={approval.pending.toolCallId}
              approval={approval}
              isSending={isSending}
              onAnswer={() => end.current?.focus()}
            />
          )}
          {unpaid.length > 0 ? (
            <Payment
              oracleDid={oracle.did}
              claimIds={unpaid}
              onPaid={() => void deliver(said.current)}
            />
          ) : (
            <Fault error={sendMessageError ?? error} />
          )}
        </div>
      </Waiting>
      <p className="hidden" {...announcer} />
      <form
        className="composer"
        onSubmit={(event) => {
          event.preventDefault()
          void say(text)
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
              if (event.key === 'Escape' && isSending) return void abortStream()
              if (event.key === 'ArrowUp' && text === '' && said.current.message)
                return setText(said.current.message)
              if (event.key !== 'Enter' || event.shiftKey) return
              event.preventDefault()
              void say(text)
            }}
          />
        </label>
        <div className="row spread">
          <AttachButton onAdd={files.add} />
          {oracle.hasMemory && <Incognito sessionId={sessionId} onChange={setIncognito} />}
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
          {oracle.price && <TurnCost oracleDid={oracle.did} runId={run.ended && run.runId} />}
          {isSending ? (
            <button type="button" className="stop" onClick={() => void abortStream()}>
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
