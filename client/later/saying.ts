import type { ChatSnapshot } from '../core/chat/view.ts'
import type { AnnouncerWords } from '../react/use-chat-announcer.ts'

const english: AnnouncerWords = {
  answering: 'Answering.',
  using: (tool) => `Using ${tool}.`,
  asking: (tool) => `${tool} needs your approval.`,
  stopped: 'Stopped.',
  failed: 'The answer failed.',
}

/** What a screen reader says about a chat as it is now. */
export function sayingOf(
  { messages, status, approval, run }: ChatSnapshot,
  isBusy: boolean,
  words: AnnouncerWords = english,
): string {
  const { toolCalls, content, type } = messages.at(-1) ?? {}
  const call = toolCalls?.findLast((one) => one.status === 'isRunning')
  if (isBusy) return call ? words.using(call.name) : words.answering
  if (approval) return words.asking(approval.toolName)
  if (run.ended === 'aborted') return words.stopped
  if (status === 'error') return words.failed
  return type === 'ai' ? String(content) : ''
}
