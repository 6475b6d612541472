/** The pairs in `colour=red size=5`, for objects without named properties. */
export function pairsIn(text: string): Record<string, unknown> | undefined {
  const pairs = [...text.matchAll(/\b([\p{L}_]\w*)\s*=\s*("[^"]*"|[^\s,;]+)/gu)]
  if (pairs.length === 0) return undefined
  return Object.fromEntries(
    pairs.map(([, key = '', value = '']) => {
      const plain = value.replace(/^"|"$/g, '')
      return [key, plain !== '' && !Number.isNaN(Number(plain)) ? Number(plain) : plain]
    }),
  )
}
