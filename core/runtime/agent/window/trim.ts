import type { Message } from '../../../plugin.ts'
import { isSummary } from '../../turns/summary.ts'
import { grouped, type Group } from './groups.ts'
import { beginningOf, withText } from './results.ts'

type Size = (message: Message) => number

/** The least that stays of a result of the newest calls. */
const leastOfResult = 200

/**
 * As much of a conversation as fits into so many bytes. The oldest messages go first. A call stays with its results. The
 * words that began the turn always stay, because the messages after them make no sense without them, and a summary stays
 * where there is room.
 */
export function trimmed(
  messages: readonly Message[],
  room: number,
  size: Size,
): readonly Message[] {
  const groups = grouped(messages)
  const asking = groups.findLastIndex(([first]) => first?.role === 'user')
  const kept = new Set<Group>()
  let left = room
  const take = (group: Group) => {
    left -= sum(group, size)
    kept.add(group)
  }
  const words = groups[asking]
  if (words) take(words)
  // The model is to act on the newest group, so the request has this group even when the group is too large.
  const newest = groups.at(-1)
  const short = newest && !kept.has(newest) ? squeezed(newest, left, size) : newest
  if (newest && !kept.has(newest)) {
    kept.add(newest)
    left -= sum(short ?? newest, size)
  }
  const [first] = groups
  if (first?.some(isSummary) && !kept.has(first) && sum(first, size) <= left) take(first)
  for (const group of groups.toReversed()) {
    if (kept.has(group)) continue
    if (sum(group, size) > left) break
    take(group)
  }
  const rest = groups.filter((group) => kept.has(group))
  const flat = rest.flatMap((group) => (group === newest ? (short ?? group) : group))
  // Providers refuse a conversation that does not begin with a message of the user.
  return flat.slice(flat.findIndex(({ role }) => role === 'user'))
}

/** A group whose results were cut to fit the room that there is, each to its part of it. */
function squeezed(group: Group, room: number, size: Size): Group {
  const results = group.filter(({ role }) => role === 'tool')
  const over = sum(group, size) - room
  if (over <= 0 || results.length === 0) return group
  const share = (room - sum(group, size) + sum(results, size)) / results.length
  return group.map((message) => {
    if (message.role !== 'tool' || size(message) <= share) return message
    if (message.content.length <= leastOfResult) return message
    const most = Math.floor((message.content.length * share) / size(message)) - 100
    return withText(message, (text) => beginningOf(text, Math.max(leastOfResult, most)))
  })
}

function sum(group: readonly Message[], size: Size): number {
  let total = 0
  for (const message of group) total += size(message)
  return total
}
