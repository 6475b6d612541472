import { inspect } from 'node:util'
import { fieldsIn } from '../../runtime/base/fields.ts'
import type { Delta, ModelUsage } from '../../plugin.ts'

/** How many characters of a provider's words a finding quotes. */
const mostQuoted = 400

/** What an error says, with its code and the words behind it, for a finding. */
export function told(error: unknown, key?: string): string {
  const words: string[] = []
  let each = error
  for (let depth = 0; depth < 5 && each instanceof Error; depth++) {
    words.push(each.message)
    each = each.cause
  }
  const { code } = fieldsIn(error instanceof Error ? { ...error } : undefined)
  const named = typeof code === 'string' ? `${code}: ` : ''
  const text = words.at(-1) ?? inspect(error)
  const safe = key ? text.replaceAll(key, '[key]') : text
  return `${named}${safe.length > mostQuoted ? `${safe.slice(0, mostQuoted)}…` : safe}`
}

/** The code of an error; empty where it has none. */
export function codeOf(error: unknown): string {
  const { code } = fieldsIn(error instanceof Error ? { ...error } : undefined)
  return typeof code === 'string' ? code : ''
}

/** Whether a key stands anywhere in an error: in its words, its details, its headers, or what caused it. */
export const holdsKey = (error: unknown, key: string): boolean =>
  inspect(error, { depth: 12, maxStringLength: Infinity, maxArrayLength: Infinity }).includes(key)

/** What is wrong with the order of an answer's deltas, a sentence each. */
export function orderFindings(deltas: readonly Delta[]): string[] {
  const found: string[] = []
  const kinds = deltas.map(({ type }) => type)
  const given = kinds.filter((type) => type === 'provider').length
  if (given > 1) found.push(`The model gives provider data ${given} times in one answer.`)
  if (given === 1 && kinds.at(-1) !== 'provider')
    found.push('The model gives provider data before the end of its answer.')
  if (kinds.includes('text') && kinds.indexOf('text') < kinds.lastIndexOf('reasoning'))
    found.push('The model says words before thoughts that the provider sent first.')
  let calls = 0
  for (const delta of deltas) {
    if (delta.type !== 'tool-call' || delta.index < calls) continue
    if (delta.index > calls)
      found.push(`The model begins a call with index ${delta.index} where ${calls} is next.`)
    if (!delta.name) found.push(`The model begins call ${delta.index} without its name.`)
    calls = delta.index + 1
  }
  return found
}

/** The usage that an answer reported last; undefined where it reported none. */
export function usageIn(deltas: readonly Delta[]): ModelUsage | undefined {
  const delta = deltas.findLast((each) => each.type === 'usage')
  if (delta?.type !== 'usage') return undefined
  const { type: _, ...usage } = delta
  return usage
}

/** What is wrong with a usage by itself: what is no count, or a part that is larger than its whole. */
export function usageFindings(usage: ModelUsage): string[] {
  const { inputTokens, outputTokens, cachedTokens = 0, cacheWriteTokens = 0 } = usage
  const { reasoningTokens = 0 } = usage
  const counts = { inputTokens, outputTokens, cachedTokens, cacheWriteTokens, reasoningTokens }
  const found = Object.entries(counts)
    .filter(([, count]) => !Number.isSafeInteger(count) || count < 0)
    .map(([name, count]) => `The model reports ${count} as ${name}.`)
  if (cachedTokens + cacheWriteTokens > inputTokens)
    found.push(
      `The model reports more cached tokens (${cachedTokens + cacheWriteTokens}) than input tokens (${inputTokens}).`,
    )
  if (reasoningTokens > outputTokens)
    found.push(
      `The model reports more reasoning tokens (${reasoningTokens}) than output tokens (${outputTokens}).`,
    )
  return found
}

/** Where a reported usage differs from what the provider counted. A part that its wire has no field for may be missing. */
export function usageDifferences(usage: ModelUsage, counted: ModelUsage): string[] {
  const found: string[] = []
  if (usage.estimated) found.push('The model calls its usage estimated, but the provider counted.')
  for (const name of ['inputTokens', 'outputTokens'] as const)
    if (usage[name] !== counted[name])
      found.push(
        `The model reports ${usage[name]} as ${name} where the provider counted ${counted[name]} in all.`,
      )
  for (const name of ['cachedTokens', 'cacheWriteTokens', 'reasoningTokens'] as const) {
    const part = usage[name]
    if (part !== undefined && part !== 0 && part !== counted[name])
      found.push(
        `The model reports ${part} as ${name} where the provider counted ${counted[name] ?? 0}.`,
      )
  }
  return found
}
