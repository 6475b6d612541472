import { createHash } from 'node:crypto'

/** Numbers that look random and are the same in every run, so that a test which fails once fails again. */
export function random(seed: string) {
  let count = 0
  const next = () =>
    createHash('sha256').update(`${seed} ${count++}`).digest().readUIntBE(0, 6) / 2 ** 48
  return {
    integer: (least: number, most: number) => least + Math.floor(next() * (most - least + 1)),
    /** With so many decimal places, as a person would write it. */
    decimal: (least: number, most: number, places: number) =>
      Number((least + next() * (most - least)).toFixed(places)),
  }
}
