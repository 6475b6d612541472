import type { Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { en } from '../../client/ui/languages/en.ts'
import { states } from '../../plugins/showcase/scenes.ts'
import { describeWith } from '../support/services.ts'
import { ofThePage, shownStates } from '../support/shown-states.ts'

/** What a screen reader must have been told by the end of a state, beside that the oracle answers. */
const told: Readonly<Record<string, RegExp>> = {
  markdown: /That is all/,
  long: /Part 20[^]* …$/, // The rest is too much to be said at once.
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
  let shown: Awaited<ReturnType<typeof shownStates>>
  beforeAll(async () => {
    shown = await shownStates(program, '0.2')
  }, 90_000)
  afterEach(() => shown.leave())
  afterAll(() => shown?.close())
  const show = async (page: Page, state: string) => {
    await shown.type(page, state)
    await page.getByRole('button', { name: 'Send', exact: true }).waitFor()
  }

  it('a screen reader hears of each state, by the live regions alone', async () => {
    const { page, complaints } = await shown.visit({}, en, (page) => page.addInitScript(listen))
    expect(Object.keys(told)).toEqual(states)
    for (const state of states) {
      await show(page, state)
      const said = () =>
        page.evaluate(() => [...(window as unknown as { said: Set<string> }).said].join('\n'))
      await expect.poll(said, { message: state, timeout: 20_000 }).toMatch(told[state]!)
      await page.evaluate(() => (window as unknown as { said: Set<string> }).said.clear())
    }
    expect(ofThePage(complaints)).toEqual([])
  }, 400_000)

  it.each([1280, 640])(
    'with text of 200 % nothing is cut and nothing leaves the page, at %i px',
    async (width) => {
      // The page lets no style of a stranger in.
      const options = { bypassCSP: true, viewport: { width, height: 800 } }
      const { page } = await shown.visit(options, en, (page) =>
        page.addInitScript(() => {
          document.addEventListener('DOMContentLoaded', () => {
            const sheet = document.createElement('style')
            sheet.textContent = 'html { font-size: 200% } .oc-root { --oc-size: 32px }'
            document.head.append(sheet)
          })
        }),
      )
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
    },
    400_000,
  )
})
