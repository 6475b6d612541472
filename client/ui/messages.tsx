import { memo, useMemo } from 'react'
import type { IMessage } from '../core/records.ts'
import { useModels } from '../react/use-oracle.ts'
import { useLatest } from '../react/use-latest.ts'
import { useAddress } from './address.ts'
import type { Branches } from './hooks.ts'
import { upTo } from './instead.tsx'
import { Message, textOf } from './message.tsx'
import { useLook } from './parts.tsx'
import type { ProgressOf } from './progress.tsx'
import type { Feedback, Rating } from './use-feedback.ts'

/** What a message can do to its conversation. */
interface Actions {
  readonly onSession: (sessionId: string) => void
  readonly onInstead: (message: IMessage, text: string) => void
}

/** What an entry can do, whatever its list has become since it was drawn. */
interface EntryActions extends Actions {
  readonly onRate: (message: IMessage, rating: Rating | null) => void
}

/** The props of `Messages`. */
export interface MessagesProps extends Actions {
  readonly messages: readonly IMessage[]
  readonly isSending: boolean
  readonly waitingCall?: string
  readonly branches: Branches
  /** What the person said last: an answer that is asked for again answers it. */
  readonly lastSaid?: IMessage
  readonly progress: ReadonlyMap<string, ProgressOf>
  readonly feedback: Feedback
}

/** The messages of a conversation. Each is drawn again when it has changed, not when another one grows. */
export function Messages(props: MessagesProps) {
  const { messages, isSending, waitingCall, branches, lastSaid, progress, feedback } = props
  const { oracleDid, overrides } = useAddress()
  const { model } = useModels(oracleDid, overrides)
  const latest = useLatest(props)
  const actions = useMemo<EntryActions>(
    () => ({
      onSession: (sessionId) => latest.current.onSession(sessionId),
      onInstead: (message, text) => latest.current.onInstead(message, text),
      onRate(message, rating) {
        const { feedback, messages } = latest.current
        feedback.rate(upTo(messages, message), rating).catch(() => undefined)
      },
    }),
    [latest],
  )
  const end = messages.length - 1
  return messages.map((message, nth) => (
    <Entry
      key={message.id}
      message={message}
      isLast={nth === end}
      isUnanswered={messages[nth + 1]?.type !== 'ai'}
      isSending={isSending}
      waitingCall={hasCall(message, waitingCall) ? waitingCall : undefined}
      branches={branches}
      lastSaid={nth === end ? lastSaid : undefined}
      progress={isRunning(message) ? progress : undefined}
      feedback={feedback}
      usual={model}
      actions={actions}
    />
  ))
}

interface EntryProps extends Pick<
  MessagesProps,
  'isSending' | 'waitingCall' | 'branches' | 'feedback' | 'lastSaid'
> {
  readonly message: IMessage
  readonly isLast: boolean
  readonly isUnanswered: boolean
  readonly progress?: ReadonlyMap<string, ProgressOf>
  readonly usual?: string
  readonly actions: EntryActions
}

/** A message in its place. The part of a page that draws it may be none that remembers, so this one does. */
const Entry = memo(function Entry(props: EntryProps) {
  const { message, isSending, waitingCall, branches, feedback, lastSaid } = props
  const { onSession, onInstead, onRate } = props.actions
  const { components } = useLook()
  const One = components.Message ?? Message
  const canAgain = lastSaid && !waits(message, waitingCall)
  return (
    <One
      message={message}
      isStreaming={isSending && props.isLast}
      isUnanswered={props.isUnanswered}
      waitingCall={waitingCall}
      versions={message.type === 'human' && !isSending ? branches.versionsOf(message) : undefined}
      canChange={!isSending && !message.id.startsWith('blob')}
      progress={props.progress}
      rating={feedback.ratingOf(message)}
      onRate={feedback.isThere ? (rating) => onRate(message, rating) : undefined}
      usual={props.usual}
      onVersion={onSession}
      onEdit={(text) => onInstead(message, text)}
      onAgain={canAgain ? () => onInstead(lastSaid, textOf(lastSaid)) : undefined}
    />
  )
})

const isRunning = ({ toolCalls = [] }: IMessage): boolean =>
  toolCalls.some(({ status }) => status === 'isRunning')

const hasCall = ({ toolCalls = [] }: IMessage, callId: string | undefined): boolean =>
  toolCalls.some(({ id }) => id === callId)

/** Whether a call of the message waits for a person: an answer that is not over cannot be asked for again. */
const waits = ({ toolCalls = [] }: IMessage, waitingCall: string | undefined): boolean =>
  toolCalls.some((call) => call.waits === true || call.id === waitingCall)
