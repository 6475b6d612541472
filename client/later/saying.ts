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
  return type === 'ai' ? plain(`${content}`) : ''
}

/** More of an answer is not said at once: whoever listens cannot skip within an announcement. */
const mostSaid = 3_999 // and one sign that says there is more

/**
 * Markdown as words alone: what a link and an image say, the rows of a table, code as it is. It is short and never slow
 * rather than exact: the page shows the answer itself.
 */
function plain(markdown: string): string {
  // Code and escaped signs are laid aside, so what looks like a mark in them stays.
  const aside: string[] = []
  let text = (markdown[mostSaid] ? markdown.slice(0, mostSaid).replace(/\S*$/, '…') : markdown)
    .replace(
      /^ *(```|~~~).*\n([^]*?)(\1|(?![^]))|(`+)([^`]+)\4|\\(\W)/gm,
      (_, _fence, block, _end, _ticks, code, sign) => (aside.push(block ?? code ?? sign), '\0'),
    )
    // Rules and the lines below headings, what begins headings, quotes and items, the edges of tables.
    .replace(/^[ |:*_=-]+$|^( *(>|#+ |[-*+] ))+|^\||\|$/gm, '')
    .replace(/ *\| */g, ', ')
  // Marks stand within marks.
  for (const _ of 'abc')
    text = text.replace(
      /!?\[([^[\]]*)\](\((\(.*?\)|[^()])*\)|\[.*?])|(\*+|~~|\b_+)(?=\S)([^]*?\S)\4(?!(?<=_)\w)/g,
      '$1$5',
    )
  return text.replace(/\0/g, () => aside.shift() ?? '').trim()
}
