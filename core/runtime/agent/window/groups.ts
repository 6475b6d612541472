import type { Message } from '../../../plugin.ts'

/** Messages that only make sense together: an answer with the results of its calls, or one message alone. */
export type Group = readonly Message[]

/** The messages in groups. */
export function grouped(messages: readonly Message[]): Group[] {
  const groups: Message[][] = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (message.role === 'tool' && last) last.push(message)
    else groups.push([message])
  }
  return groups
}
