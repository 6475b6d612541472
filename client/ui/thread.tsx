import { useEffect, useRef, useState } from 'react'
import type { IMessage, Overrides } from '../core/records.ts'
import { useChat } from '../react/use-chat.ts'
import { useChatAnnouncer } from '../react/use-chat-announcer.ts'
import { useApproval, useRun } from '../react/use-run.ts'
import { Composer } from './composer.tsx'
import { useFollow, useLate } from './follow.ts'
import { type Branches, useBranches } from './hooks.ts'
import { useInstead } from './instead.tsx'
import { Message, textOf } from './message.tsx'
import { useLook } from './parts.tsx'
import { useWords } from './words.ts'

/** Words that wait for their session, or for their version of the conversation. */
export interface Pending {
  readonly sessionId: string
  readonly text: string
}

/** The props of `Thread`. */
export interface ThreadProps {
  readonly oracleDid: string
  readonly sessionId: string
  readonly overrides?: Overrides
  /** Opens another conversation, and says something there. */
  readonly onSession: (sessionId: string, say?: string) => void
  readonly pending?: Pending
  readonly onSent?: () => void
  readonly onSettled?: () => void
}

/** One conversation, with its composer. */
export function Thread(props: ThreadProps) {
  const { oracleDid, sessionId, overrides, onSession, onSettled } = props
  const words = useWords()
  const { components: Parts } = useLook()
  const address = { oracleDid, sessionId, overrides }
  const chat = useChat({ ...address, onPaymentRequiredError: () => undefined })
  const { messages, status, isLoading, isSending, error, sendMessageError } = chat
  const run = useRun(address)
  const approval = useApproval(address)
  const announcer = useChatAnnouncer(address)
  const settled = isSending ? 0 : messages.length
  const branches = useBranches(oracleDid, sessionId, overrides, settled)
  const { instead, question, fault } = useInstead(messages, branches, onSession)
  const box = useFollow(messages)

  const say = async (text: string) => {
    box.toEnd()
    await chat.sendMessage(text)
    onSettled?.()
  }
  usePending(props, isLoading, say)
  const lastSaid = messages.findLast(({ type }) => type === 'human')
  const retry = lastSaid && sendMessageError ? () => void say(textOf(lastSaid)) : undefined
  return (
    <section className="oc-thread" data-state={status}>
      <div
        className="oc-messages"
        ref={box.ref}
        tabIndex={0}
        role="region"
        aria-label={words.messages}
        aria-busy={isLoading}
      >
        <Messages
          messages={messages}
          isSending={isSending}
          waitingCall={approval.pending?.toolCallId}
          branches={branches}
          lastSaid={lastSaid}
          onSession={onSession}
          onInstead={(message, text) => void instead(message, text)}
        />
        <Thinking isThinking={status === 'submitted'} />
        <Parts.ApprovalCard
          key={approval.pending?.toolCallId}
          approval={approval}
          isBusy={isSending}
        />
        {question}
        <Parts.ErrorCard error={fault ?? sendMessageError ?? error} onRetry={retry} />
      </div>
      {!box.isAtEnd && (
        <button type="button" className="oc-to-end" onClick={box.toEnd}>
          {words.toEnd}
        </button>
      )}
      <ConnectionLine isLost={run.reconnecting} />
      <p className="oc-hidden" {...announcer} />
      <Composer
        name={`${oracleDid} ${sessionId}`}
        isSending={isSending}
        lastSaid={lastSaid && textOf(lastSaid)}
        onSend={(text) => void say(text)}
        onStop={() => void chat.abortStream()}
      />
    </section>
  )
}

/** Says the words that wait for this conversation, once it is loaded. */
function usePending(
  { pending, sessionId, onSent }: ThreadProps,
  isLoading: boolean,
  say: (text: string) => Promise<void>,
) {
  const last = useRef(say)
  last.current = say
  useEffect(() => {
    if (pending?.sessionId !== sessionId || isLoading) return
    onSent?.()
    void last.current(pending.text)
  }, [pending, sessionId, isLoading])
}

interface MessagesProps {
  readonly messages: readonly IMessage[]
  readonly isSending: boolean
  readonly waitingCall?: string
  readonly branches: Branches
  /** What the person said last: an answer that is asked for again answers it. */
  readonly lastSaid?: IMessage
  readonly onSession: (sessionId: string) => void
  readonly onInstead: (message: IMessage, text: string) => void
}

function Messages(props: MessagesProps) {
  const { messages, isSending, waitingCall, branches, lastSaid, onSession, onInstead } = props
  const end = messages.length - 1
  return messages.map((message, nth) => (
    <Message
      key={message.id}
      message={message}
      isStreaming={isSending && nth === end}
      waitingCall={waitingCall}
      versions={message.type === 'human' && !isSending ? branches.versionsOf(end - nth) : undefined}
      canChange={!isSending && !message.id.startsWith('blob')}
      onVersion={onSession}
      onEdit={(text) => onInstead(message, text)}
      onAgain={nth === end && lastSaid ? () => onInstead(lastSaid, textOf(lastSaid)) : undefined}
    />
  ))
}

/** Says that the oracle thinks, and after eight seconds that the message is still on its way. */
function Thinking({ isThinking }: { readonly isThinking: boolean }) {
  const words = useWords()
  const isLate = useLate(isThinking, 8_000)
  if (!isThinking) return null
  return (
    <p className="oc-thinking" role={isLate ? 'status' : undefined}>
      {isLate ? words.stillSending : words.thinking}
    </p>
  )
}

/** Says that the connection is lost, loudly after eight seconds, and that it is back. */
export function ConnectionLine({ isLost }: { readonly isLost: boolean }) {
  const words = useWords()
  const [wasLost, setWasLost] = useState(false)
  const isLong = useLate(isLost, 8_000)
  useEffect(() => {
    if (isLost) setWasLost(true)
  }, [isLost])
  return (
    <p
      className="oc-connection"
      role={isLong ? 'alert' : 'status'}
      data-state={isLost ? 'lost' : 'there'}
    >
      {isLost ? words.connectionLost : wasLost ? words.connected : ''}
    </p>
  )
}
