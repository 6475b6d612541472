'use client'
export { AttachButton, Attachments } from './ui/attachments.tsx'
export type { AttachmentsProps } from './ui/attachments.tsx'
export { ChatRoot, OracleChat, Suggestions } from './ui/chat.tsx'
export type { ChatRootProps, OracleChatProps, SuggestionsProps } from './ui/chat.tsx'
export { Composer } from './ui/composer.tsx'
export type { ComposerProps } from './ui/composer.tsx'
export { useBranches, useDraft } from './ui/hooks.ts'
export type { AlreadyDone, Branches, Versions } from './ui/hooks.ts'
export { Markdown } from './ui/markdown/markdown.tsx'
export type { MarkdownProps, Renderers } from './ui/markdown/markdown.tsx'
export { BranchPicker, EditForm, Message, MessageActions } from './ui/message.tsx'
export type {
  BranchPickerProps,
  EditFormProps,
  MessageActionsProps,
  MessageProps,
} from './ui/message.tsx'
export { ModelPicker } from './ui/model-picker.tsx'
export type { ModelPickerProps } from './ui/model-picker.tsx'
export { isPassing, isUnmade, newName } from './ui/outbox.ts'
export type { Outbox, OutboxEntry, OutboxSnapshot } from './ui/outbox.ts'
export { ApprovalCard, endingOf, ErrorCard, Reasoning, ToolCard } from './ui/parts.tsx'
export type {
  ApprovalCardProps,
  Components,
  ErrorCardProps,
  ReasoningProps,
  ToolCardProps,
} from './ui/parts.tsx'
export { PaymentCard } from './ui/payment.tsx'
export type { PaymentCardProps } from './ui/payment.tsx'
export { Progress, useProgress } from './ui/progress.tsx'
export type { ProgressOf, ProgressProps } from './ui/progress.tsx'
export { Shortcuts } from './ui/shortcuts.tsx'
export type { ShortcutsProps } from './ui/shortcuts.tsx'
export { ConnectionLine, JumpToEnd, Thread } from './ui/thread.tsx'
export type { ConnectionLineProps, JumpToEndProps, ThreadProps } from './ui/thread.tsx'
export { ThreadList } from './ui/thread-list.tsx'
export type { ThreadListProps } from './ui/thread-list.tsx'
export { Told } from './ui/told.tsx'
export { useComposer } from './ui/use-composer.ts'
export type { ComposerState, ComposerUse } from './ui/use-composer.ts'
export { useFeedback } from './ui/use-feedback.ts'
export type { Feedback, Rating } from './ui/use-feedback.ts'
export { useFiles } from './ui/use-files.ts'
export type { Files, Upload } from './ui/use-files.ts'
export { useOutbox } from './ui/use-outbox.ts'
export type { OutboxResult } from './ui/use-outbox.ts'
export { useThreads } from './ui/use-threads.ts'
export type { ListedThread, ThreadHit, Threads } from './ui/use-threads.ts'
export { useTimeline } from './ui/use-timeline.ts'
export type { Timeline, TimelineResult, TimelineStep } from './ui/use-timeline.ts'
export { Waiting } from './ui/waiting.tsx'
export type { WaitingProps } from './ui/waiting.tsx'
export { useWords } from './ui/words.ts'
export type { Words } from './ui/words.ts'
