import { RuntimeError } from '#core'
import { askJson, type Fetch } from './addresses.ts'
import type { Chain } from './chains.ts'
import type { VerifiedRound } from './drand.ts'
import { publishedSchema } from './published.ts'

/**
 * Fetches a round from all relays at once and takes the first answer that verifies; the other requests are given up then.
 * No relay is trusted: a relay can be late or silent, and nothing else.
 */
export async function fetchRound(
  fetch: Fetch,
  relays: readonly string[],
  chain: Chain,
  round: number,
  signal: AbortSignal,
): Promise<VerifiedRound> {
  const { verifyRound } = await import('./drand.ts')
  const rest = new AbortController()
  const either = AbortSignal.any([signal, rest.signal])
  const asked = relays.map(async (relay) => {
    try {
      const answer = await askJson(fetch, relay, `${chain.hash}/public/${round}`, either)
      const found = verifyRound(chain, round, publishedSchema.parse(answer))
      if ('fault' in found) throw new Error(found.fault)
      return found
    } catch (cause) {
      throw new Error(`${new URL(relay).host}: ${reasonOf(cause)}`, { cause })
    }
  })
  try {
    return await Promise.any(asked)
  } catch (cause) {
    signal.throwIfAborted()
    const reasons = cause instanceof AggregateError ? cause.errors.map(reasonOf) : [reasonOf(cause)]
    throw new RuntimeError(
      'UPSTREAM_FAILED',
      `No relay gave round ${round} of the chain ${chain.name} with a signature that verifies.`,
      {
        hint: 'Try again later, or paste the answer of any relay as "published".',
        cause: new Error(reasons.join('; '), { cause }),
      },
    )
  } finally {
    rest.abort()
  }
}

const reasonOf = (cause: unknown): string =>
  cause instanceof Error ? cause.message : String(cause)
