'use client'
export { ChatRoot, OracleChat, Suggestions } from './ui/chat.tsx'
export type { ChatRootProps, OracleChatProps, SuggestionsProps } from './ui/chat.tsx'
export { Composer } from './ui/composer.tsx'
export type { ComposerProps } from './ui/composer.tsx'
export { useBranches, useDraft } from './ui/hooks.ts'
export type { AlreadyDone, Branches, Versions } from './ui/hooks.ts'
export { Markdown } from './ui/markdown/markdown.tsx'
export type { MarkdownProps, Renderers } from './ui/markdown/markdown.tsx'
export { BranchPicker, Message } from './ui/message.tsx'
export type { BranchPickerProps, MessageProps } from './ui/message.tsx'
export { ApprovalCard, endingOf, ErrorCard, Reasoning, ToolCard } from './ui/parts.tsx'
export type {
  ApprovalCardProps,
  Components,
  ErrorCardProps,
  ReasoningProps,
  ToolCardProps,
} from './ui/parts.tsx'
export { ConnectionLine, Thread } from './ui/thread.tsx'
export type { ThreadProps } from './ui/thread.tsx'
export { ThreadList } from './ui/thread-list.tsx'
export type { ThreadListProps } from './ui/thread-list.tsx'
export { useThreads } from './ui/use-threads.ts'
export type { ListedThread, ThreadHit, Threads } from './ui/use-threads.ts'
export { useWords } from './ui/words.ts'
export type { Words } from './ui/words.ts'
