import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import playground from '../../plugins/playground/index.ts'
import showcase from '../../plugins/showcase/index.ts'
import { states } from '../../plugins/showcase/scenes.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { builtPage } from '../support/built-page.ts'
import { describeWith } from '../support/services.ts'

/** What a screen reader must have been told by the end of a state, beside that the oracle answers. */
const told: Readonly<Record<string, RegExp>> = {
  markdown: /That is all/,
  long: /Part 20/, // The rest is too much to be said at once.
  rtl: /العدّاد/,
  hostile: /attacker\.example/,
  thinking: /7,412 litres/,
  progress: /\d of 6\. meter/,
  approval: /asks before it calls send_invitation/,
  'tool-error': /does not answer/,
  component: /the weather of the card/,
  parallel: /All three have answered/,
  'sub-agent': /The surveyor is back/,
  payment: /To be paid first/,
  'too-long': /longer than the model reads/,
  'model-error': /did not answer/,
  cut: /broke off/,
  slow: /nine seconds/,
  takeover: /word 60/,
}

/** Notes in the page what its live regions say, each text once. */
function listen(): void {
  const said = new Set<string>()
  Object.assign(window, { said })
  const look = () => {
    for (const region of document.querySelectorAll<HTMLElement>(
      '[role=status],[role=alert],[aria-live]',
    ))
      if (region.textContent?.trim()) said.add(region.textContent.trim())
  }
  new MutationObserver(look).observe(document, {
    ...{ childList: true, subtree: true, characterData: true, attributes: true },
  })
}

await describeWith('chromium', 'what the states of /show tell', (program) => {
  let browser: Browser
  let app: TestApp
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
    app = await testApp({
      plugins: [playground, showcase],
      model: scriptedModel([]),
      env: { NODE_ENV: 'development', SHOWCASE_PACE: '0.2', RATE_LIMIT_PER_MINUTE: '100000' },
    })
  }, 90_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
  })
  const show = async (page: Page, state: string) => {
    await page.goto(`${app.url}/playground/#/chat/new`)
    await expect.poll(() => page.locator('.oc-message').count()).toBe(0)
    await page.getByLabel('Message', { exact: true }).focus()
    await page.keyboard.type(`/show ${state}`)
    await page.keyboard.press('Enter')
    await page.locator('.oc-ai, .oc-payment, .oc-error').first().waitFor()
    await page.getByRole('button', { name: 'Send', exact: true }).waitFor()
  }

  it('a screen reader hears of each state, by the live regions alone', async () => {
    const context = await browser.newContext()
    context.setDefaultTimeout(40_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.addInitScript(listen)
    expect(Object.keys(told)).toEqual(states)
    for (const state of states) {
      await show(page, state)
      const said = () =>
        page.evaluate(() => [...(window as unknown as { said: Set<string> }).said].join('\n'))
      await expect.poll(said, { message: state, timeout: 20_000 }).toMatch(told[state]!)
      await page.evaluate(() => (window as unknown as { said: Set<string> }).said.clear())
    }
    expect(complaints.filter((line) => !/status of (402|502)/.test(line))).toEqual([])
    await context.close()
  }, 400_000)

  it.each([1280, 640])(
    'with text of 200 % nothing is cut and nothing leaves the page, at %i px',
    async (width) => {
      const context = await browser.newContext({
        ...{ bypassCSP: true, viewport: { width, height: 800 } }, // The page lets no style of a stranger in.
      })
      context.setDefaultTimeout(40_000)
      const page = await context.newPage()
      await page.addInitScript(() => {
        document.addEventListener('DOMContentLoaded', () => {
          const sheet = document.createElement('style')
          sheet.textContent = 'html { font-size: 200% } .oc-root { --oc-size: 32px }'
          document.head.append(sheet)
        })
      })
      for (const state of states) {
        await show(page, state)
        const faults = await page.evaluate(() => {
          const isOver = ({ scrollWidth, clientWidth }: Element) => scrollWidth > clientWidth + 1
          const wide = [
            document.documentElement,
            ...document.querySelectorAll('main, .oc-thread, .oc-message'),
          ]
          const cut = [
            ...document.querySelectorAll('main button, main summary, main label'),
          ].filter(
            (one) => !one.closest('.oc-threads') && getComputedStyle(one).overflow !== 'visible',
          )
          return [...wide, ...cut]
            .filter(isOver)
            .map((one) => `${one.tagName}.${one.className}: ${one.textContent?.slice(0, 40)}`)
        })
        const size = await page
          .locator('.oc-messages')
          .evaluate((one) => parseFloat(getComputedStyle(one).fontSize))
        expect([state, size, ...faults]).toEqual([state, 32])
        if (process.env.SCREENSHOTS)
          await page.screenshot({ path: `${process.env.SCREENSHOTS}/200-${width}-${state}.png` })
      }
      await context.close()
    },
    400_000,
  )
})
