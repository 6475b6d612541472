import { sealed, toData, unsealed, type EventFacts } from '../events/data.ts'
import type { RunEvent } from '../journal/event-lines.ts'
import type { RenderedComponent } from '../run.ts'

/** How many characters of the words one event carries, so that each event fits a frame. */
const pieceLength = 16 * 1024

/** The events of words that a plugin says unasked: those of a run that has ended. */
export function eventsOf(
  facts: EventFacts,
  text: string,
  component: RenderedComponent | undefined,
): RunEvent[] {
  const timestamp = new Date().toISOString()
  const told = [
    unsealed('run', {}),
    ...pieces(text).map((content) => unsealed('message', { content })),
    ...(component ? [unsealed('render_component', shown(component))] : []),
  ].map((item, i) => ({ id: i + 1, event: item.event, data: sealed(item, facts, timestamp) }))
  const data = toData('done', { status: 'finished' }, facts, timestamp)
  return [...told, { id: told.length + 1, event: 'done', data }]
}

const shown = ({ eventId, name, args }: RenderedComponent) => ({
  eventId,
  componentName: name,
  args,
  status: 'done',
})

/** A text in pieces, none of which ends in the middle of a character. */
function pieces(text: string): string[] {
  const found: string[] = []
  for (let at = 0; at < text.length;) {
    const code = text.charCodeAt(at + pieceLength - 1)
    const isHalf = code >= 0xd800 && code <= 0xdbff
    const end = at + pieceLength - (isHalf ? 1 : 0)
    found.push(text.slice(at, end))
    at = end
  }
  return found
}
