/** How a file can be sent, the smallest first, by the ending of the copy that lies beside it. */
export const codings = { br: '.br', gzip: '.gz' } as const

/** A way to send a file. */
export type Coding = keyof typeof codings

const ways = ['br', 'gzip'] as const

/**
 * The codings that a client takes by its `Accept-Encoding`, the best first: by the weight that the client gives, then by size.
 * A client that rates the plain file above all copies gets that.
 */
export function codingsFor(accepted: string | undefined): Coding[] {
  const weights = new Map(
    (accepted ?? '').split(',').map((item) => {
      const [name = '', ...facts] = item.split(';').map((part) => part.trim().toLowerCase())
      const weight = facts.find((fact) => fact.startsWith('q='))
      return [name, weight === undefined ? 1 : Number(weight.slice(2)) || 0] as const
    }),
  )
  const weightOf = (name: string) => weights.get(name) ?? weights.get('*') ?? 0
  const plain = weights.get('identity') ?? 0
  return ways
    .filter((name) => weightOf(name) > 0 && weightOf(name) >= plain)
    .sort((a, b) => weightOf(b) - weightOf(a))
}
