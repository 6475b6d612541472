/** An amount of the smallest unit, for people: `0.01 DEV`. */
export function inCoins(
  amount: string,
  { symbol, decimals }: { readonly symbol: string; readonly decimals: number },
): string {
  const digits = amount.padStart(decimals + 1, '0')
  const whole = digits.slice(0, digits.length - decimals)
  const rest = digits.slice(digits.length - decimals).replace(/0+$/, '')
  return `${whole}${rest && `.${rest}`} ${symbol}`
}
