import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

await describeWith('chromium', 'two tabs of one user', (program) => {
  it('each shows what was said in it, whichever of the two sends it', async () => {
    await using site = await kitPage()
    const model = scriptedModel(Array.from({ length: 8 }, (_, nth) => `Answer ${nth}.`))
    await using app = await testApp({ plugins: [], model })
    const browser = await launch(program)
    try {
      const context = await browser.newContext()
      context.setDefaultTimeout(40_000)
      const seed = randomBytes(32).toString('base64')
      const tab = async () => {
        const page = await context.newPage()
        await page.goto(site.address(app.url, app.oracleDid, { seed }))
        const field = page.getByLabel('Message', { exact: true })
        await field.waitFor()
        const begin = () => page.getByRole('button', { name: 'New chat' }).click()
        const say = async (text: string) => {
          await field.fill(text)
          await page.keyboard.press('Enter')
        }
        /** Waits until what was said stands there once, with its answer. */
        const answered = async (text: string) => {
          await page.locator('.oc-ai .oc-markdown').last().getByText('Answer').waitFor()
          expect(await page.locator('.oc-said').allTextContents()).toContain(text)
          expect(await page.locator('.oc-said', { hasText: text }).count()).toBe(1)
        }
        return { page, begin, say, answered }
      }
      const [one, other] = [await tab(), await tab()]
      for (const [nth, teller] of [one, other, one, other].entries()) {
        await teller.begin()
        await teller.say(`Words ${nth}`)
        await teller.answered(`Words ${nth}`)
      }
      // A tab that cannot send: the other one does, and the first one shows it all the same.
      await other.begin()
      const isTurn = /\/sessions$|\/messages\//
      await other.page.route(isTurn, (route) =>
        route.request().method() === 'POST' ? route.abort() : route.continue(),
      )
      await other.say('From a tab that cannot send')
      await other.answered('From a tab that cannot send')
      expect(await one.page.locator('.oc-said').allTextContents()).toEqual(['Words 2'])
    } finally {
      await browser.close()
    }
  }, 120_000)
})
