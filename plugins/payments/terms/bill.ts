import type { RunEnding } from '#core'
import { toAmount } from './money.ts'
import { priceOf } from './prices-file.ts'
import type { Terms } from './terms.ts'

/** One line of a bill. The amounts of all lines together are the amount of the bill. */
export type BillLine =
  | { readonly what: 'turn'; readonly amount: string; readonly half?: true }
  | {
      readonly what: 'tokens'
      readonly amount: string
      readonly models: readonly {
        readonly model: string
        readonly inputTokens: number
        readonly outputTokens: number
        readonly estimated?: true
      }[]
    }
  | {
      readonly what: 'tool'
      readonly name: string
      readonly count: number
      readonly amount: string
    }
  | { readonly what: 'extra'; readonly reason: string; readonly amount: string }
  /** What the turn cost beyond the most that it is billed: the oracle bears it. */
  | { readonly what: 'limit'; readonly amount: string }

/** What another plugin added to a turn. */
export interface ExtraCharge {
  readonly amount: number
  readonly reason: string
}

/** What a turn is billed. */
export interface Bill {
  readonly amount: number
  readonly lines: readonly BillLine[]
}

/** What a bill is made of. */
export type Billed = Pick<RunEnding, 'status' | 'cause' | 'said' | 'usage' | 'tools'>

const nothing: Bill = { amount: 0, lines: [] }

/**
 * The bill of a turn that has ended. A turn that failed, or that this server gave up, costs nothing. A turn that the user's
 * side ended costs what it used so far and, once something was said, half of the turn price, rounded up.
 */
export function billOf(
  run: Billed,
  terms: Terms,
  most: number,
  extras: readonly ExtraCharge[] = [],
): Bill {
  const share = shareOf(run)
  if (share === 'nothing') return nothing
  const lines: BillLine[] = []
  const turn = share === 'all' ? terms.turn : run.said ? Math.ceil(terms.turn / 2) : 0
  if (turn > 0) {
    const half = share === 'half' && { half: true as const }
    lines.push({ what: 'turn', amount: String(turn), ...half })
  }
  lines.push(...tokenLines(run, terms), ...toolLines(run, terms))
  for (const { amount, reason } of extras)
    if (amount > 0) lines.push({ what: 'extra', reason, amount: String(amount) })
  const cost = lines.reduce((sum, { amount }) => sum + BigInt(amount), 0n)
  if (cost <= BigInt(most)) return { amount: toAmount(cost), lines }
  lines.push({ what: 'limit', amount: String(BigInt(most) - cost) })
  return { amount: most, lines }
}

/** How much of a turn is billed, by how it ended. */
function shareOf({ status, cause, said, tools }: Billed): 'all' | 'half' | 'nothing' {
  if (status === 'finished') return 'all'
  if (status === 'failed' || cause === undefined || cause === 'given-up') return 'nothing'
  return said || tools.some(({ outcome }) => outcome === 'done') ? 'half' : 'nothing'
}

/** Tokens of all models: what they cost in thousandths is rounded up once. */
function tokenLines({ usage }: Billed, terms: Terms): BillLine[] {
  let thousandths = 0n
  for (const { model, inputTokens, outputTokens } of usage) {
    const { input, output } = priceOf(terms.tokens, model) ?? terms
    thousandths += BigInt(Math.ceil(inputTokens)) * BigInt(input)
    thousandths += BigInt(Math.ceil(outputTokens)) * BigInt(output)
  }
  if (thousandths === 0n) return []
  const models = usage.map(({ model, inputTokens, outputTokens, estimated }) => ({
    model,
    inputTokens,
    outputTokens,
    ...(estimated && { estimated }),
  }))
  return [{ what: 'tokens', amount: String((thousandths + 999n) / 1000n), models }]
}

function toolLines({ tools }: Billed, terms: Terms): BillLine[] {
  const counts = new Map<string, number>()
  for (const { name, outcome } of tools)
    if (outcome === 'done' && Object.hasOwn(terms.tools, name))
      counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts].flatMap(([name, count]) => {
    const price = terms.tools[name] ?? 0
    const amount = String(BigInt(price) * BigInt(count))
    return price > 0 ? [{ what: 'tool' as const, name, count, amount }] : []
  })
}
