import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import { en } from '../../client/ui/languages/en.ts'
import { fr } from '../../client/ui/languages/fr.ts'
import { sw } from '../../client/ui/languages/sw.ts'
import playground from '../../plugins/playground/index.ts'
import showcase from '../../plugins/showcase/index.ts'
import { states } from '../../plugins/showcase/scenes.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { builtPage } from '../support/built-page.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

type Axe = {
  run(options: {
    runOnly: readonly string[]
  }): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>
}

/** WCAG 2.2, level AA. What a model makes a heading of has no order that a page can promise. */
const accessible = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] as const

/** What stands on the page at the end of a state, by the words of a language. */
const seen = (
  words: typeof en,
): Readonly<Record<string, readonly [where: string, what: string]>> => ({
  markdown: ['.oc-ai table', ''],
  long: ['.oc-ai .oc-markdown', '60'],
  rtl: ['.oc-ai [dir=auto]', 'العدّاد'],
  hostile: ['.oc-ai .oc-markdown', 'attacker.example'],
  thinking: ['.oc-reasoning summary', words.thought],
  progress: ['.oc-tool[data-state=done] summary', 'read_meters'],
  approval: ['.oc-approval', 'send_invitation'],
  'tool-error': ['.oc-tool[data-state=error] summary', 'break_down'],
  component: ['.oc-tool summary', 'WeatherCard'],
  parallel: ['.oc-tool[data-state=done] summary', 'count_wells'],
  'sub-agent': ['.oc-tool[data-state=done] summary', 'call_surveyor'],
  payment: ['.oc-payment button', words.pay],
  'too-long': ['.oc-error', 'longer than the model reads'],
  'model-error': ['.oc-error', 'did not answer'],
  cut: ['.oc-ending', ''],
  slow: ['.oc-ai .oc-markdown', 'nine seconds'],
  takeover: ['.oc-ai .oc-markdown', 'word 60'],
})

await describeWith('chromium', 'the states that /show shows', (program) => {
  let browser: Browser
  let app: TestApp
  const open: { close(): Promise<unknown> }[] = []
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
    app = await testApp({
      plugins: [playground, showcase],
      model: scriptedModel([]),
      env: { NODE_ENV: 'development', SHOWCASE_PACE: '0', RATE_LIMIT_PER_MINUTE: '100000' },
    })
  }, 90_000)
  afterEach(async () => {
    for (const thing of open.splice(0)) await thing.close()
  })
  afterAll(async () => {
    await browser?.close()
    await app?.close()
  })

  async function visit(options: BrowserContextOptions = {}, words = en) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
    open.push(context)
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/chat/new`)
    await page.getByLabel(words.message, { exact: true }).waitFor()
    return { page, complaints }
  }
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
      const { page, complaints } = await visit(options, words)
      const ends = seen(words)
      expect(Object.keys(ends)).toEqual(states)
      for (const state of states) {
        await page.goto(`${app.url}/playground/#/chat/new`)
        const field = page.getByLabel(words.message, { exact: true })
        await expect.poll(() => page.locator('.oc-message').count()).toBe(0)
        await field.focus()
        await page.keyboard.type(`/show ${state}`)
        await page.keyboard.press('Enter')
        const [where = '', what = ''] = ends[state] ?? []
        await page.locator(where).filter({ hasText: what }).last().waitFor()
        await page.getByRole('button', { name: words.send, exact: true }).waitFor()
        expect([state, ...(await faultsOn(page))]).toEqual([state])
        expect([state, ...(await isWide(page))]).toEqual([state])
        if (process.env.SCREENSHOTS)
          await page.screenshot({ path: `${process.env.SCREENSHOTS}/${words.locale}-${state}.png` })
      }
      // What a refusal looks like to the browser itself is a line that no page can leave out.
      const lines = complaints.filter((line) => !/status of (402|502)/.test(line))
      expect(lines).toEqual([])
    },
    600_000,
  )

  it('an approval is edited and a payment settled by clicks alone', async () => {
    const { page, complaints } = await visit()
    await page.getByRole('button', { name: '/show approval' }).click()
    const card = page.locator('.oc-approval')
    await card.getByRole('button', { name: 'Edit' }).click()
    await card.getByLabel('seats').fill('3')
    await card.getByRole('button', { name: 'Approve' }).click()
    await page.locator('.oc-ai').getByText('That is done as you decided.').waitFor()
    const call = page.locator('.oc-tool', { hasText: 'send_invitation' }).last()
    await call.locator('summary').click()
    await call.getByText('"seats":3').or(call.getByText('"seats": 3')).first().waitFor()

    await page.getByRole('button', { name: 'New chat' }).click()
    await page.getByRole('button', { name: '/show payment' }).click()
    const payment = page.getByRole('region', { name: en.payment })
    await payment.getByText('2 SHOW').waitFor()
    await payment.getByRole('button', { name: 'Pay' }).click()
    await page.locator('.oc-ai').getByText('It is paid').waitFor()
    expect(await payment.count()).toBe(0)
    expect(complaints.filter((line) => !line.includes('status of 402'))).toEqual([])
  }, 120_000)

  it.each(['ltr', 'rtl'])(
    'Arabic and Hebrew stand right and code left, in a page that is %s',
    async (dir) => {
      const { page } = await visit()
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
      expect(await name.evaluate((one) => getComputedStyle(one).textOverflow)).toBe('ellipsis')
    },
    120_000,
  )
})
