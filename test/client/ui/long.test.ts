import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import type { Model } from '#core'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { longChat } from '../../support/long-chat.ts'
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
    await using chat = await longChat(talker)
    const { app, sessionId, seed } = chat
    const browser = await launch(program)
    try {
      const page = await browser.newPage({ viewport: { width: 900, height: 700 } })
      page.setDefaultTimeout(60_000)
      const complaints = complaintsOf(page)
      const asked: string[] = []
      page.on('request', (request) => {
        const { pathname, searchParams } = new URL(request.url())
        if (request.method() === 'GET' && pathname.endsWith('/messages'))
          asked.push(searchParams.has('before') ? 'older' : 'newest')
        if (pathname === `/messages/${sessionId}` && request.method() === 'GET') asked.push('all')
      })
      const cdp = await page.context().newCDPSession(page)
      await cdp.send('Emulation.setCPUThrottlingRate', { rate: 4 })
      await page.goto(site.address(app.url, app.oracleDid, { seed, session: sessionId }))
      const messages = page.locator('.oc-message')
      await messages.nth(49).waitFor()
      expect(await messages.count()).toBe(50)
      expect(await messages.first().textContent()).toContain('Question 205?')
      expect(asked).toEqual(['newest'])
      expect(await page.locator('.oc-message img').count()).toBe(0)
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
      expect(await messages.first().textContent()).toContain('Question 0?')
      expect(asked).toEqual(['newest', ...Array<string>(9).fill('older')])
      expect(await page.locator('.oc-tool').count()).toBe(40)
      expect(await page.locator('.oc-message img').count()).toBe(3)
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
