import type { Message } from '../../../plugin.ts'
import { beginningOf, sizeOf, withText, type Result } from './results.ts'

/** How many groups of calls keep their results. */
const wholeGroups = 3
/** How much stays of what a writing tool said. */
const mostOfWrite = 500
/** A result that is not longer than this stays: leaving it out would win nothing. */
const shortest = 200

/** A conversation of which results were left out. */
export interface Pruned {
  readonly messages: Message[]
  /** How many results were left out. */
  readonly left: number
}

/**
 * Leaves out the results of tools that are older than the newest three groups of calls. A model can read again what it read
 * before; of writes the beginning stays, and what failed stays as it is. The calls themselves stay: providers sign them.
 */
export function pruned(
  messages: readonly Message[],
  isWrite: (tool: string) => boolean,
): Pruned | undefined {
  let groups = 0
  let left = 0
  const kept = messages.toReversed().map((message, nth, newestFirst) => {
    if (message.role !== 'tool') return message
    // Results stand in a row behind their answer, so the newest of a row begins a group.
    if (newestFirst[nth - 1]?.role !== 'tool') groups++
    if (groups <= wholeGroups || message.failed) return message
    const short = shortened(message, isWrite(message.name))
    if (short) left++
    return short ?? message
  })
  return left > 0 ? { messages: kept.reverse(), left } : undefined
}

function shortened(result: Result, isWrite: boolean): Result | undefined {
  const { content, name, parts } = result
  if (isWrite)
    return content.length > mostOfWrite + shortest || parts?.length
      ? withText(result, (text) => beginningOf(text, mostOfWrite))
      : undefined
  if (content.length <= shortest && !parts?.length) return undefined
  const { parts: _, ...rest } = result
  const line = `[result of ${name}, ${sizeOf(content)}, left out: call it again if needed]`
  return { ...rest, content: line }
}
