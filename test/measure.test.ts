import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { limitsOn, measures } from '../scripts/measure.ts'

const page = readFileSync(resolve(import.meta.dirname, '../CONTRIBUTING.md'), 'utf8')
const limits = limitsOn(page)
const figures = measures()

describe('the figures of the kernel', () => {
  it('have a limit each in CONTRIBUTING.md', () => {
    expect([...limits.keys()]).toEqual(figures.map(({ name }) => name))
  })

  it.each(figures)('$name stay within their limit', ({ name, value, places }) => {
    expect(value, `${places.join('\n')}\n`).toBeLessThanOrEqual(limits.get(name) ?? 0)
  })
})
