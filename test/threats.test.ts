import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')
const page = readFileSync(join(root, 'docs/security.md'), 'utf8')

/** The rows of the table of threats: what somebody does, and the cell that names its tests. */
const threats = (/## Threats.*?(?=\n## )/s.exec(page)?.[0] ?? '')
  .split('\n')
  .filter((line) => line.startsWith('|'))
  .slice(2)
  .map((line) => {
    const cells = line.split('|').map((cell) => cell.trim())
    return { threat: cells[1] ?? '', shownIn: cells.at(-2) ?? '' }
  })

const files = (cell: string) =>
  [...cell.matchAll(/`([^`]+\.(?:test\.)?ts)`/g)].map(([, path = '']) => path)
/** What follows a file up to the next one: a part of a test's title, where the row says which. */
const titles = (cell: string) =>
  [...cell.matchAll(/`([^`]+\.test\.ts)`, (?!`)([^`|]+?)(?=, `|$)/g)].map(
    ([, path = '', title = '']) => ({
      path,
      title,
    }),
  )
const squeezed = (text: string) => text.toLowerCase().replace(/\s+/g, ' ')

describe('the table of threats', () => {
  it('has a row for each threat and names a test for each', () => {
    expect(threats.length).toBeGreaterThan(20)
    for (const { threat, shownIn } of threats) expect(files(shownIn), threat).not.toEqual([])
  })

  it('names only files that are there', () => {
    for (const { threat, shownIn } of threats)
      for (const path of files(shownIn))
        expect(existsSync(join(root, path)), `${threat}: ${path}`).toBe(true)
  })

  it('names only tests whose words stand in their file', () => {
    const named = threats.flatMap(({ shownIn }) => titles(shownIn))
    expect(named.length).toBeGreaterThan(3)
    for (const { path, title } of named)
      expect(squeezed(readFileSync(join(root, path), 'utf8')), `${path}: ${title}`).toContain(
        squeezed(title),
      )
  })
})
