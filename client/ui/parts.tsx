import { createContext, lazy, useContext, type ComponentType, type ReactNode } from 'react'
import { OracleError } from '../core/error.ts'
import type { IBrowserTools, UIComponents } from '../core/page.ts'
import type { IMessage, ToolCall } from '../core/records.ts'
import type { Approval } from '../react/use-run.ts'
import { Markdown, type Renderers } from './markdown/markdown.tsx'
import { straight } from './markdown/links.ts'
import type { Args, ArgsFault } from './args-form.tsx'
import type { AttachmentsProps } from './attachments.tsx'
import type { SuggestionsProps } from './chat.tsx'
import type { ComposerProps } from './composer.tsx'
import type { BranchPickerProps, MessageActionsProps, MessageProps } from './message.tsx'
import type { ModelPickerProps } from './model-picker.tsx'
import type { PaymentCardProps } from './payment.tsx'
import { Progress, type ProgressOf, type ProgressProps } from './progress.tsx'
import { ClockFault } from './clock.tsx'
import type { ConnectionLineProps } from './connection-line.tsx'
import type { JumpToEndProps } from './thread.tsx'
import type { ThreadListProps } from './thread-list.tsx'
import type { WaitingProps } from './waiting.tsx'
import { useSeconds } from './seconds.tsx'
import { useWords } from './words.ts'

/** The parts that a page may replace by its own. */
export interface Components {
  readonly ToolCard: ComponentType<ToolCardProps>
  readonly ApprovalCard: ComponentType<ApprovalCardProps>
  readonly ErrorCard: ComponentType<ErrorCardProps>
  readonly Reasoning: ComponentType<ReasoningProps>
  readonly Progress: ComponentType<ProgressProps>
  readonly Attachments?: ComponentType<AttachmentsProps>
  readonly BranchPicker?: ComponentType<BranchPickerProps>
  readonly Composer?: ComponentType<ComposerProps>
  readonly ConnectionLine?: ComponentType<ConnectionLineProps>
  readonly JumpToEnd?: ComponentType<JumpToEndProps>
  readonly Message?: ComponentType<MessageProps>
  readonly MessageActions?: ComponentType<MessageActionsProps>
  readonly ModelPicker?: ComponentType<ModelPickerProps>
  readonly PaymentCard?: ComponentType<PaymentCardProps>
  readonly Suggestions?: ComponentType<SuggestionsProps>
  readonly ThreadList?: ComponentType<ThreadListProps>
  readonly Waiting?: ComponentType<WaitingProps>
}

/** What all parts of a chat share beside their words. */
export interface Look {
  readonly components: Components
  readonly renderers?: Renderers
  readonly imageHosts?: readonly string[]
  /** Components that the agent may show, by name. */
  readonly uiComponents?: UIComponents
  /** Tools that run in the page. */
  readonly browserTools?: IBrowserTools
}

/** The props of `ToolCard`. */
export interface ToolCardProps {
  readonly call: ToolCall
  /** The call waits for a person. */
  readonly waits: boolean
  /** How far the call is, where it tells. */
  readonly progress?: ProgressOf
}

/** One call of a tool: its name, how it stands, and its arguments and result when they are asked for. */
export function ToolCard({ call, waits, progress }: ToolCardProps) {
  const words = useWords()
  const { components: Parts } = useLook()
  const { name, args, status, output, error } = call
  const state = waits ? 'waits' : (status ?? 'done')
  const said = waits
    ? words.waits
    : status === 'isRunning'
      ? words.running
      : status === 'error'
        ? words.failed
        : words.done
  const seconds = useSeconds(state === 'isRunning')
  const card = (
    <details className="oc-tool" data-state={state} data-tool={name}>
      <summary>
        <bdi dir="ltr">{straight(name)}</bdi>{' '}
        <span className="oc-about" dir="auto">
          {briefly(args)}
        </span>{' '}
        <span className="oc-state">
          {said}
          {seconds}
        </span>
      </summary>
      <pre dir="ltr" tabIndex={0}>
        {shown(args)}
      </pre>
      {(error ?? output) !== undefined && (
        <pre dir="ltr" tabIndex={0}>
          {shown(error ?? output)}
        </pre>
      )}
    </details>
  )
  if (!progress || state !== 'isRunning') return card
  return (
    <>
      {card}
      <Parts.Progress progress={progress} />
    </>
  )
}

/** The arguments in a few words. */
function briefly(args: unknown): string {
  const text = Object.values(Object(args))
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
    .join(', ')
  return straight(text.length > 60 ? `${text.slice(0, 57)}…` : text)
}

/** How much of arguments and results is shown. */
const mostShown = 20_000

/** Arguments or a result as text. */
export function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value, null, 2) ?? '')
  return straight(text.length > mostShown ? `${text.slice(0, mostShown)}…` : text)
}

/** The props of `Reasoning`. */
export interface ReasoningProps {
  readonly text: string
  readonly isThinking: boolean
}

/** What the model thought before it spoke. */
export function Reasoning({ text, isThinking }: ReasoningProps) {
  const words = useWords()
  const { imageHosts, renderers } = useLook()
  return (
    <details className="oc-reasoning" data-state={isThinking ? 'thinking' : 'done'}>
      <summary>{isThinking ? words.thinking : words.thought}</summary>
      <Markdown
        text={text}
        isStreaming={isThinking}
        imageHosts={imageHosts}
        renderers={renderers}
      />
    </details>
  )
}

/** The props of `ApprovalCard`. */
export interface ApprovalCardProps {
  readonly approval: Approval
  readonly isBusy: boolean
  /** The schema of the tool's arguments, as JSON Schema, where the oracle tells it. */
  readonly schema?: Args
  /** What did not fit in the arguments that were sent last. */
  readonly faults?: readonly ArgsFault[]
}

/** The props of `ErrorCard`. */
export interface ErrorCardProps {
  readonly error: unknown
  readonly onRetry?: () => void
}

/** What went wrong, what can be done, and the facts for whoever asks. */
export function ErrorCard({ error, onRetry }: ErrorCardProps): ReactNode {
  const words = useWords()
  if (error === undefined || error === null) return null
  const { message, hint, details, requestId, serverCode, code } =
    error instanceof OracleError
      ? error
      : new OracleError('server', error instanceof Error ? error.message : String(error))
  return (
    <div className="oc-error" role="alert" data-state={code}>
      <p dir="auto">
        {straight(message)} {hint && straight(hint)}
      </p>
      {isSignedOut(error) && <ClockFault />}
      <div className="oc-row">
        {onRetry && (
          <button type="button" onClick={onRetry}>
            {isSignedOut(error) ? words.signInAgain : words.tryAgain}
          </button>
        )}
      </div>
      <details>
        <summary>{words.details}</summary>
        <pre dir="ltr" tabIndex={0}>
          {shown({ code: serverCode ?? code, requestId, details })}
        </pre>
      </details>
    </div>
  )
}

/** Whether the way on is the wallet's: it asks its user once more. */
export const isSignedOut = (fault: unknown): boolean =>
  fault instanceof OracleError && ['unauthorized', 'delegation_required'].includes(fault.code)

/** How an answer ended that did not come to its own end, or what became of words without an answer; undefined where it did. */
export function endingOf(
  message: IMessage,
  isStreaming: boolean,
  isUnanswered?: boolean,
): 'stopped' | 'cutOff' | 'cutByLength' | 'cutByFilter' | 'failed' | undefined {
  const { isComplete, cut, type, run } = message
  if (isStreaming) return undefined
  // Words without an answer say what became of that.
  const ended = type !== 'human' ? message.ended : isUnanswered ? run?.status : undefined
  if (ended === 'aborted' || cut) return 'stopped'
  if (ended === 'failed') return 'failed'
  if (ended === 'length') return 'cutByLength'
  if (ended === 'content_filter') return 'cutByFilter'
  return ended === 'interrupted' || isComplete === false ? 'cutOff' : undefined
}

/** The code that asks is fetched when a call waits for a person. */
const ApprovalCard = lazy(async () => ({ default: (await import('./approval.tsx')).ApprovalCard }))

/** The parts of the kit. */
export const ownComponents: Components = {
  ...{ ToolCard, ApprovalCard, ErrorCard, Reasoning, Progress },
}

/** The parts of the kit itself, and what the page has put in their place. */
export const LookContext = createContext<Look>({ components: ownComponents })

/** What the parts below `ChatRoot` share. */
export const useLook = (): Look => useContext(LookContext)
