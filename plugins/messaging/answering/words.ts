/** What every event of the oracle has: nobody answers it, and it calls nobody. */
export const own = { 'oracle-runtime.agent': true, 'm.mentions': {} }

type Markdown = InstanceType<typeof import('markdown-it').default>

let markdown: Promise<Markdown> | undefined

/** Text of a model as HTML of a room. HTML in the text stays text, and pictures become links. */
async function htmlOf(text: string): Promise<string> {
  markdown ??= import('markdown-it').then(({ default: Parser }) =>
    new Parser({ html: false, linkify: false }).disable('image'),
  )
  return (await markdown).render(text).trim()
}

/** Where an answer stands: in the timeline, or in a thread. */
export interface Place {
  readonly roomId: string
  /** The message that is answered. */
  readonly replyTo: string
  readonly thread: string | undefined
}

/** A message of the oracle. */
export async function messageOf(text: string, place?: Place): Promise<Record<string, unknown>> {
  const words = {
    msgtype: 'm.text',
    body: text,
    format: 'org.matrix.custom.html',
    formatted_body: await htmlOf(text),
    ...own,
  }
  if (!place) return words
  const reply = { 'm.in_reply_to': { event_id: place.replyTo } }
  const { thread } = place
  const relation =
    thread === undefined
      ? reply
      : { rel_type: 'm.thread', event_id: thread, is_falling_back: true, ...reply }
  return { ...words, 'm.relates_to': relation }
}

/** The same message with other words. */
export async function editOf(text: string, eventId: string): Promise<Record<string, unknown>> {
  const words = await messageOf(text)
  const fallback = {
    ...words,
    body: `* ${text}`,
    formatted_body: `* ${String(words.formatted_body)}`,
  }
  return {
    ...(text.length > mostFallback ? { msgtype: 'm.text', body: '*', ...own } : fallback),
    'm.new_content': words,
    'm.relates_to': { rel_type: 'm.replace', event_id: eventId },
  }
}

/** Words that are longer stand in an edit once and not twice: an event has a size. */
const mostFallback = 4_000

/** Control characters out, but for line breaks and tabs. */
export const cleaned = (text: string): string => text.toWellFormed().replace(/[^\P{Cc}\n\t]/gu, '')

/** Cuts a long text where it hurts least. */
export function piecesOf(text: string, longest: number): string[] {
  const pieces: string[] = []
  let rest = text
  while (rest.length > longest) {
    const head = rest.slice(0, longest)
    const at = Math.max(head.lastIndexOf('\n'), head.lastIndexOf(' '))
    const end = at > longest / 2 ? at : longest
    pieces.push(rest.slice(0, end).toWellFormed())
    rest = rest.slice(end).trimStart()
  }
  return [...pieces, rest.toWellFormed()]
}
