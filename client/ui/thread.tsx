import { lazy, Suspense, useCallback, useMemo } from 'react'
import { OracleError } from '../core/error.ts'
import type { Attachment, IMessage, Overrides } from '../core/records.ts'
import { useChat } from '../react/use-chat.ts'
import { type AnnouncerWords, useChatAnnouncer } from '../react/use-chat-announcer.ts'
import { useApproval, useRun } from '../react/use-run.ts'
import { AddressContext } from './address.ts'
import { Asking, faultsIn } from './asking.tsx'
import { Composer } from './composer.tsx'
import { ConnectionLine } from './connection-line.tsx'
import { useFollow, useLate } from './follow.ts'
import { useReadAgain } from './read-again.ts'
import { useBranches } from './hooks.ts'
import { useInstead } from './instead.tsx'
import { straight } from './markdown/links.ts'
import { textOf } from './message.tsx'
import { Messages } from './messages.tsx'
import { ModelPicker } from './model-picker.tsx'
import { NotKept } from './not-kept.tsx'
import { isPassing } from './outbox.ts'
import { type Components, useLook } from './parts.tsx'
import { useProgress } from './progress.tsx'
import { Told } from './told.tsx'
import { useFeedback } from './use-feedback.ts'
import { useFiles } from './use-files.ts'
import { useHistory } from './use-history.ts'
import { type OutboxResult, useOutbox } from './use-outbox.ts'
import { Waiting } from './waiting.tsx'
import { useSeconds } from './seconds.tsx'
import { useWords, type Words } from './words.ts'

/** The props of `Thread`. */
export interface ThreadProps {
  readonly oracleDid: string
  readonly sessionId: string
  readonly overrides?: Overrides
  /** Opens another conversation; the empty name is that of a new one. */
  readonly onSession: (sessionId: string) => void
}

/** One conversation, with its composer. */
export function Thread(props: ThreadProps) {
  const { oracleDid, sessionId, overrides } = props
  const address = useMemo(
    () => ({ oracleDid, sessionId, overrides }),
    [oracleDid, sessionId, overrides?.baseUrl],
  )
  return (
    <AddressContext.Provider value={address}>
      <Conversation {...props} />
    </AddressContext.Provider>
  )
}

function Conversation(props: ThreadProps) {
  const { oracleDid, sessionId, overrides, onSession } = props
  const words = useWords()
  const { components: Parts, uiComponents, browserTools } = useLook()
  const address = { oracleDid, sessionId, overrides }
  const chat = useChat({
    ...{ ...address, uiComponents, browserTools },
    onPaymentRequiredError: () => undefined,
  })
  const { messages: all, status, isLoading, isSending, error, sendMessageError } = chat
  const run = useRun(address)
  const approval = useApproval(address)
  const announcer = useChatAnnouncer(address, announced(words))
  const files = useFiles(oracleDid, overrides, sessionId)
  const progress = useProgress(address)
  const feedback = useFeedback(oracleDid, sessionId, overrides)
  const { box, messages } = useShown(address, all)
  const branches = useBranches(oracleDid, sessionId, overrides, isSending ? 0 : messages.length)
  const sayIn = (id: string, text?: string, attachments?: readonly Attachment[]) => {
    if (text !== undefined) box.outbox.add(id, text, attachments)
    onSession(id)
  }
  const { instead, question, fault, again } = useInstead(messages, branches, sayIn)
  const view = useFollow(messages, useHistory(address))

  const say = (text: string, attachments?: readonly Attachment[]) => {
    view.toEnd()
    return box.outbox.add(sessionId, text, attachments)
  }
  const lastSaid = messages.findLast(({ type }) => type === 'human')
  const { Field, Line, End, Picker, Queue } = chosen(Parts)
  return (
    <section className="oc-thread" data-state={status}>
      <div
        className="oc-messages"
        ref={view.ref}
        tabIndex={0}
        role="region"
        aria-label={words.messages}
        aria-busy={isLoading}
      >
        <Older onShow={view.showOlder} />
        <Messages
          messages={view.shown}
          isSending={isSending}
          waitingCall={approval.pending?.toolCallId}
          {...{ branches, lastSaid, progress, feedback, onSession }}
          onInstead={(message, text) => void instead(message, text)}
        />
        <Thinking isThinking={status === 'submitted'} />
        <Asking address={address} approval={approval} isBusy={isSending} error={sendMessageError} />
        {question}
        <Told address={address} />
        <Queue box={box} isAnswering={isSending && run.runId !== null} />
        <Trouble
          {...{ oracleDid, overrides, box, again, sendMessageError, onSession }}
          errors={[fault, error]}
          isAsking={approval.pending !== null}
          onSayAgain={lastSaid && (() => void say(textOf(lastSaid), lastSaid.attachments))}
          onReadAgain={() => void chat.refetchMessages()}
        />
      </div>
      {!view.isAtEnd && <End onJump={view.toEnd} count={view.unread} />}
      <Line isLost={run.reconnecting} retryAt={run.retryAt} />
      <p className="oc-hidden" {...announcer} />
      <NotKept />
      <Field
        name={`${oracleDid} ${sessionId}`}
        isSending={isSending}
        files={files}
        lastSaid={lastSaid && textOf(lastSaid)}
        onEditLast={() => editLast(view.ref.current)}
        onSend={say}
        onStop={() => void chat.abortStream()}
      >
        <Picker oracleDid={oracleDid} overrides={overrides} />
      </Field>
    </section>
  )
}

/** Begins to edit what was said last, where it can be changed now. */
function editLast(list: HTMLElement | null): boolean {
  const last = [...(list?.querySelectorAll('.oc-human') ?? [])].at(-1)
  const button = last?.querySelector<HTMLElement>('.oc-begin-edit')
  button?.click()
  return button != null
}

/** The parts below the messages: the kit's own, where the page has none in their place. */
const chosen = (parts: Components) => ({
  Field: parts.Composer ?? Composer,
  Line: parts.ConnectionLine ?? ConnectionLine,
  End: parts.JumpToEnd ?? JumpToEnd,
  Picker: parts.ModelPicker ?? ModelPicker,
  Queue: parts.Waiting ?? Waiting,
})

/** The messages of a chat without those that wait, which stand behind them. */
function useShown({ oracleDid, sessionId, overrides }: ThreadAddress, all: readonly IMessage[]) {
  const isHere = useCallback((id: string) => id === sessionId, [sessionId])
  const box = useOutbox(oracleDid, isHere, overrides)
  const messages = useMemo(() => all.filter((message) => !box.hides(message)), [all, box.hides])
  return { box, messages }
}

type ThreadAddress = Pick<ThreadProps, 'oracleDid' | 'sessionId' | 'overrides'>

interface TroubleProps extends Pick<ThreadProps, 'oracleDid' | 'overrides' | 'onSession'> {
  readonly box: OutboxResult
  readonly sendMessageError: OracleError | null
  /** What else went wrong. */
  readonly errors: readonly [fault: unknown, error: unknown]
  /** A call waits for a person: what was said last is under way. */
  readonly isAsking: boolean
  /** Says once more what the first of them kept from being said. */
  readonly again: (() => void) | undefined
  readonly onSayAgain: (() => void) | undefined
  readonly onReadAgain: () => void
}

/** What has to be paid before the message goes out, or what went wrong and can be tried again. */
function Trouble(props: TroubleProps) {
  const { oracleDid, overrides, box, sendMessageError, errors } = props
  const { isAsking, again, onSayAgain, onReadAgain } = props
  const words = useWords()
  const { components: Parts } = useLook()
  const Payment = Parts.PaymentCard ?? OwnPaymentCard
  const told = [errors[0], box.fault, sendMessageError, errors[1]].find((one) => one != null)
  const isUnread = told === errors[1]
  const gone = (isUnread || told === sendMessageError) && isGone(told) ? told : undefined
  useReadAgain(isUnread ? told : null, onReadAgain)
  if (sendMessageError?.code === 'payment_required')
    return (
      <Suspense>
        <Payment
          oracleDid={oracleDid}
          overrides={overrides}
          error={sendMessageError}
          onPaid={() => onSayAgain?.()}
        />
      </Suspense>
    )
  // What the outbox tries again by itself is no fault that a person has to do something about.
  const isOfBox = !again && box.waiting.length > 0
  if (isOfBox && told instanceof OracleError && isPassing(told)) return null
  // What does not fit in edited arguments stands at their fields.
  if (isAsking && faultsIn(told).length > 0) return null
  // No second try brings the chat back, and what the server says of it is for programs.
  if (gone)
    return (
      <>
        <Parts.ErrorCard
          error={new OracleError(gone.code, words.chatGone, { ...gone, hint: undefined })}
        />
        <button type="button" onClick={() => props.onSession('')}>
          {words.newChat}
        </button>
      </>
    )
  const asked = sendMessageError && !isAsking ? onSayAgain : isUnread ? onReadAgain : undefined
  const retry = again ?? (box.fault ? box.outbox.tryNow : asked)
  return <Parts.ErrorCard error={told} onRetry={retry} />
}

const isGone = (fault: unknown): fault is OracleError =>
  fault instanceof OracleError && fault.code === 'not_found' && fault.serverCode === 'NOT_FOUND'

/** The code that pays is fetched when something is to be paid. */
const OwnPaymentCard = lazy(async () => ({ default: (await import('./payment.tsx')).PaymentCard }))

/** What a screen reader is told, in the words of the kit. */
const announced = (words: Words): AnnouncerWords => ({
  answering: words.thinking,
  using: (tool) => `${straight(tool)}: ${words.running}`,
  asking: (tool) => words.approvalOf(straight(tool)),
  stopped: words.stopped,
  failed: words.failed,
})

/** The props of `JumpToEnd`. */
export interface JumpToEndProps {
  readonly onJump: () => void
  /** How many messages have come since the reader went up. */
  readonly count?: number
}

/** The way to the newest message, for a reader who has scrolled up. */
export function JumpToEnd({ onJump, count = 0 }: JumpToEndProps) {
  const words = useWords()
  return (
    <button type="button" className="oc-to-end" onClick={onJump}>
      {words.toEnd}
      {count > 0 && ` (${count.toLocaleString(words.locale)})`}
    </button>
  )
}

/** The way to what was said before, for who does not scroll. */
function Older({ onShow }: { readonly onShow: (() => void) | undefined }) {
  const words = useWords()
  if (!onShow) return null
  return (
    <button type="button" className="oc-quiet oc-older" onClick={onShow}>
      {words.older}
    </button>
  )
}

/** Says that the oracle thinks, and after eight seconds that the message is still on its way. */
function Thinking({ isThinking }: { readonly isThinking: boolean }) {
  const words = useWords()
  const isLate = useLate(isThinking, 8_000)
  const seconds = useSeconds(isThinking)
  if (!isThinking) return null
  return (
    <p className="oc-thinking" role={isLate ? 'status' : undefined}>
      {isLate ? words.stillSending : words.thinking}
      {seconds}
    </p>
  )
}
