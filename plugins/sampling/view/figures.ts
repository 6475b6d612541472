/** The digits that a person reads; the rest is kept for who copies or points at a number. */
const digits = 4

/** A text whose long numbers have four significant digits: `z = 1.9599639845400543` becomes `z = 1.96`. */
export const rounded = (text: string): string =>
  text.replace(/(?<![\w.])\d+\.\d{3,}(?:e[+-]?\d+)?(?![\w.])/g, (number) =>
    String(Number(Number(number).toPrecision(digits))),
  )

/** At most this many steps between the ticks of an axis. */
const mostTicks = 6

/** The round numbers at which an axis from one number to another has its ticks. */
export function ticksOf(from: number, to: number): number[] {
  if (!(to > from)) return [from]
  const rough = (to - from) / mostTicks
  const unit = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 2.5, 5, 10].map((part) => part * unit).find((one) => one >= rough) ?? rough
  const first = Math.ceil(from / step - 1e-9)
  const count = Math.floor(to / step + 1e-9) - first + 1
  // A sum of steps would gather faults of the last digit: 0.15000000000000002.
  return Array.from({ length: count }, (_, nth) => Number(((first + nth) * step).toPrecision(10)))
}
