import { randomBytes } from 'node:crypto'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import type { Model } from '#core'
import { testApp } from '#core/testing'
import { createDevelopmentWallet } from '../../../client/wallet.ts'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

const tokens = 2_000

/** The rest of the answer comes when the reader has gone up. */
let goOn = () => {}
const isUp = new Promise<void>((resolve) => (goOn = resolve))

/** Says its tokens by the handful, so that a page draws many times. */
const talker: Model = {
  id: 'talker',
  async *stream() {
    for (let said = 0; said < tokens; said++) {
      if (said === 100) await isUp
      if (said % 10 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
      yield { type: 'text', text: said % 40 === 39 ? `word${said}\n\n` : `word${said} ` }
    }
  },
}

/** A conversation of 500 messages of 2 KB, with 40 calls and three pictures, as a server tells it. */
const history = Array.from({ length: 500 }, (_, nth) => ({
  id: `m${nth}`,
  type: nth % 2 === 0 ? 'human' : 'ai',
  content: `Message ${nth}. ${'Some words of it. '.repeat(nth % 2 === 0 ? 5 : 110)}${
    nth % 150 === 1 ? '![red](data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=)' : ''
  }`,
  isComplete: true,
  ...(nth % 24 === 1 || nth % 24 === 3
    ? { toolCalls: [{ id: `c${nth}`, name: 'look', args: {}, status: 'done', output: 'seen' }] }
    : {}),
}))

/** Where the first message stands that can be read, and which it is. */
const lookAt = (page: Page) =>
  page.evaluate(() => {
    const box = document.querySelector('.oc-messages')!
    const edge = box.getBoundingClientRect().top
    const all = [...box.querySelectorAll('.oc-message')]
    const at = all.findIndex((one) => one.getBoundingClientRect().bottom > edge + 1)
    const text = all[at]?.textContent?.slice(0, 14) ?? ''
    return { text, top: all[at]!.getBoundingClientRect().top, count: all.length }
  })

/** Scrolls, and says at once what is read then, before anything is put in above it. */
const scrollTo = (page: Page, top: number) =>
  page.evaluate((to) => {
    const box = document.querySelector('.oc-messages')!
    box.scrollTop = to
    const edge = box.getBoundingClientRect().top
    const all = [...box.querySelectorAll('.oc-message')]
    const read = all.find((one) => one.getBoundingClientRect().bottom > edge + 1)!
    return { text: read.textContent!.slice(0, 14), top: read.getBoundingClientRect().top }
  }, top)

await describeWith('chromium', 'a long conversation on a slow processor', (program) => {
  it('opens at its newest fifty, goes back by pages without a jump, and never moves a reader who went up', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: talker })
    const browser = await launch(program)
    try {
      const seed = randomBytes(32)
      const wallet = await createDevelopmentWallet({ seed: new Uint8Array(seed) })
      const created = await fetch(`${app.url}/sessions`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${(await wallet.createInvocation(app.oracleDid)).serialized}`,
          'x-auth-type': 'ucan',
        },
      })
      const { sessionId } = (await created.json()) as { sessionId: string }
      const page = await browser.newPage({ viewport: { width: 900, height: 700 } })
      page.setDefaultTimeout(60_000)
      const complaints = complaintsOf(page)
      await page.route(`**/messages/${sessionId}`, (route) =>
        route.request().method() === 'GET'
          ? route.fulfill({
              json: { messages: history },
              headers: { 'access-control-allow-origin': '*' },
            })
          : route.continue(),
      )
      const cdp = await page.context().newCDPSession(page)
      await cdp.send('Emulation.setCPUThrottlingRate', { rate: 4 })
      await page.goto(
        site.address(app.url, app.oracleDid, {
          seed: seed.toString('base64'),
          session: sessionId,
        }),
      )
      const messages = page.locator('.oc-message')
      await messages.nth(49).waitFor()
      expect(await messages.count()).toBe(50)
      expect(await messages.first().textContent()).toContain('Message 450.')
      await expect
        .poll(() =>
          page.evaluate(() => {
            const box = document.querySelector('.oc-messages')!
            return box.scrollHeight - box.scrollTop - box.clientHeight
          }),
        )
        .toBeLessThan(60)
      const field = page.getByLabel('Message', { exact: true })
      await field.pressSequentially('Go on')

      for (let shown = 100; shown <= 500; shown += 50) {
        const before = await scrollTo(page, 120)
        await expect.poll(() => messages.count(), { timeout: 60_000 }).toBe(shown)
        await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(null))))
        const after = await lookAt(page)
        expect(after.text).toBe(before.text)
        expect(Math.abs(after.top - before.top), before.text).toBeLessThanOrEqual(2)
      }
      expect(await messages.first().textContent()).toContain('Message 0.')
      expect(await page.getByRole('button', { name: 'Older messages' }).count()).toBe(0)
      expect(await field.inputValue()).toBe('Go on')

      await field.press('Enter')
      const streaming = page.locator('.oc-message[data-state=streaming]')
      await streaming.getByText('word99').waitFor()
      await scrollTo(page, 20_000)
      const end = page.getByRole('button', { name: 'To the newest message' })
      await end.waitFor()
      const read = await lookAt(page)
      // The reader stays, from here until the last token.
      goOn()
      for (let looks = 0; (await streaming.count()) > 0; looks++) {
        const now = await lookAt(page)
        expect(now.text).toBe(read.text)
        expect(Math.abs(now.top - read.top), `look ${looks}`).toBeLessThanOrEqual(2)
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
      expect(await lookAt(page)).toMatchObject({ text: read.text, count: 502 })
      await end.click()
      await page
        .locator('.oc-ai')
        .last()
        .getByText(`word${tokens - 1}`)
        .waitFor()
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 300_000)
})
