import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { fakeOpenMeteo } from './support/fake-open-meteo.ts'
import { PageWalk } from './support/page-walk.ts'
import { blocksOf, notRun, pages, type Block } from './support/pages.ts'

/** What a block shows that nobody could run. */
const shown = new Set(['text', 'json', 'mermaid'])
/** Files that a page spells out, and programs: `docs.test.ts` builds and type-checks them, `package.test.ts` those of an app outside. */
const isChecked = ({ kind, mark }: Block) =>
  /^(tsx?|md)$/.test(kind) && (mark === undefined || /^(file|include|outside): /.test(mark))

const all = pages.flatMap((page) => blocksOf(page))
const walked = pages.filter((page) => blocksOf(page).some(({ kind }) => kind === 'sh'))

describe('the blocks of the pages', () => {
  it('are run, checked, shown, or say why they are not', () => {
    expect(all.length).toBeGreaterThan(50)
    const strange = all.filter(
      (block) =>
        !shown.has(block.kind) &&
        !isChecked(block) &&
        !['sh', 'js'].includes(block.kind) &&
        notRun(block) === undefined,
    )
    expect(strange).toEqual([])
  })

  it('one that is neither is found', () => {
    const [block] = blocksOf(
      'x.md',
      'Words.\n\n<!-- not run: needs a phone -->\n\n```sh\ndial\n```\n',
    )
    expect(block).toEqual({
      page: 'x.md',
      line: 3,
      kind: 'sh',
      mark: 'not run: needs a phone',
      code: 'dial\n',
    })
    expect(notRun(block!)).toBe('needs a phone')
  })

  it('in JavaScript can be read by Node', () => {
    for (const { code, page } of all.filter(({ kind }) => kind === 'js')) {
      const args = ['--input-type=module', '--check', '-']
      const { status, stderr } = spawnSync(process.execPath, args, {
        input: code,
        encoding: 'utf8',
      })
      expect(stderr, page).toBe('')
      expect(status).toBe(0)
    }
  })
})

describe('from a fresh clone, in the order of the page', () => {
  it.each(walked)('every command of %s works', { timeout: 240_000 }, async (page) => {
    const weather = await fakeOpenMeteo()
    const walk = await PageWalk.begin(weather.env)
    try {
      for (const block of blocksOf(page)) {
        const path = /^file: (.+)/.exec(block.mark ?? '')?.[1]
        if (path) walk.write(path, block.code)
        if (block.kind === 'sh' && notRun(block) === undefined) await walk.run(block)
      }
    } finally {
      await walk.end()
      await weather.close()
    }
  })
})
