import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { en } from '../../client/ui/languages/en.ts'
import { fr } from '../../client/ui/languages/fr.ts'
import { sw } from '../../client/ui/languages/sw.ts'
import { states } from '../../plugins/showcase/scenes.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'
import { ofThePage, seenAtTheEnd, shownStates } from '../support/shown-states.ts'

type Axe = {
  run(options: {
    runOnly: readonly string[]
  }): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>
}

/** WCAG 2.2, level AA. What a model makes a heading of has no order that a page can promise. */
const accessible = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] as const

await describeWith('chromium', 'the states that /show shows', (program) => {
  let shown: Awaited<ReturnType<typeof shownStates>>
  beforeAll(async () => {
    shown = await shownStates(program, '0')
  }, 90_000)
  afterEach(() => shown.leave())
  afterAll(() => shown?.close())
  /** The faults that axe finds on a page. */
  async function faultsOn(page: Page) {
    const source = await readFile(join(root, 'node_modules/axe-core/axe.min.js'), 'utf8')
    await page.evaluate((text) => (0, eval)(text), source).catch(() => page.evaluate(source))
    return page.evaluate(async (tags) => {
      const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run({
        runOnly: [...tags],
      })
      return violations.map(
        ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(' | ')}`,
      )
    }, accessible)
  }
  const isWide = (page: Page) =>
    page.evaluate(() =>
      [document.documentElement, ...document.querySelectorAll('main, .oc-thread, .oc-message')]
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
        .map(({ className, tagName }) => `${tagName}.${className}`),
    )

  it.each<[string, typeof en, BrowserContextOptions]>([
    ['in English, light', en, { locale: 'en' }],
    [
      'in Swahili, dark, at 320 px',
      sw,
      { locale: 'sw', colorScheme: 'dark', viewport: { width: 320, height: 700 } },
    ],
    [
      'in French, in forced colours, with reduced motion',
      fr,
      { locale: 'fr', forcedColors: 'active', reducedMotion: 'reduce' },
    ],
  ])(
    'each is reached by the keyboard, has no fault that axe finds and no console line, %s',
    async (_, words, options) => {
      const { page, complaints } = await shown.visit(options, words)
      const ends = seenAtTheEnd(words)
      expect(Object.keys(ends)).toEqual(states)
      for (const state of states) {
        await shown.type(page, state, words)
        const [where = '', what = ''] = ends[state] ?? []
        await page.locator(where).filter({ hasText: what }).last().waitFor()
        await page.getByRole('button', { name: words.send, exact: true }).waitFor()
        expect([state, ...(await faultsOn(page))]).toEqual([state])
        expect([state, ...(await isWide(page))]).toEqual([state])
        if (process.env.SCREENSHOTS)
          await page.screenshot({ path: `${process.env.SCREENSHOTS}/${words.locale}-${state}.png` })
      }
      expect(ofThePage(complaints)).toEqual([])
    },
    600_000,
  )

  it.each(['ltr', 'rtl'])(
    'Arabic and Hebrew stand right and code left, in a page that is %s',
    async (dir) => {
      const { page } = await shown.visit()
      await page.evaluate((way) => void (document.documentElement.dir = way), dir)
      await page.getByLabel('Message', { exact: true }).fill('/show rtl')
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai pre').waitFor()
      await page.getByRole('button', { name: 'Send', exact: true }).waitFor()
      const found = await page
        .locator('.oc-ai :is(h3, h4, h5, li, p, pre, code)')
        .evaluateAll((all) =>
          all.map((one) => {
            const range = document.createRange()
            range.selectNodeContents(one)
            const box = one.getBoundingClientRect()
            const [first] = range.getClientRects()
            const { direction } = getComputedStyle(one)
            const isRight = first !== undefined && box.right - first.right < first.left - box.left
            return { text: one.textContent ?? '', tag: one.tagName, direction, isRight }
          }),
        )
      const isRightToLeft = ({ text }: { text: string }) => /^[\u0590-\u06ff]/.test(text)
      const right = found.filter(isRightToLeft)
      expect(right.length).toBeGreaterThanOrEqual(4)
      for (const one of right) expect(one).toMatchObject({ direction: 'rtl', isRight: true })
      const code = found.filter(({ tag }) => tag === 'PRE' || tag === 'CODE')
      expect(code.length).toBeGreaterThanOrEqual(2)
      for (const one of code) expect(one.direction).toBe('ltr')
      // What holds others begins where they do: the bar of a quote, the first column of a table, the marks of a list.
      for (const holder of ['blockquote', 'table'])
        expect(
          await page.locator(`.oc-ai ${holder}`).evaluate((one) => getComputedStyle(one).direction),
        ).toBe('rtl')
      const inset = page.locator('.oc-ai li').first()
      expect(
        await inset.evaluate((one) => parseFloat(getComputedStyle(one).marginRight)),
      ).toBeGreaterThan(16)
      // The words of the person are Latin ones.
      const own = page.locator('.oc-human .oc-said')
      expect(await own.evaluate((one) => getComputedStyle(one).direction)).toBe('ltr')
      // They stand at the end of a line of the page, and the name of the chat is cut at its own end.
      const sides = await own.evaluate((one) => {
        const around = one.closest('.oc-message')!.getBoundingClientRect()
        const { left, right } = one.getBoundingClientRect()
        return { left: left - around.left, right: around.right - right }
      })
      expect(sides[dir === 'rtl' ? 'left' : 'right']).toBeLessThan(1)
      const name = page.locator('.oc-thread-name bdi').first()
      expect(await name.evaluate((one) => getComputedStyle(one).direction)).toBe('ltr')
      expect(await name.evaluate((one) => getComputedStyle(one).webkitLineClamp)).toBe('2')
    },
    120_000,
  )
})
