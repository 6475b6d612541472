import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

await describeWith('chromium', 'a page whose clock is an hour off', (program) => {
  it.each([-1, 1])(
    'by %i hours: what was said stays in sight beside the refusal, and goes out once the clock is right',
    async (hours) => {
      await using site = await kitPage()
      await using app = await testApp({ plugins: [], model: scriptedModel(['Good day.']) })
      const browser = await launch(program)
      try {
        const context = await browser.newContext()
        context.setDefaultTimeout(40_000)
        const page = await context.newPage()
        await page.addInitScript((ms) => {
          const now = Date.now.bind(Date)
          Date.now = () => now() + ms
        }, hours * 3_600_000)
        const seed = randomBytes(32).toString('base64')
        const address = site.address(app.url, app.oracleDid, { seed })
        await page.goto(address)
        await page.getByLabel('Message', { exact: true }).fill('Good morning')
        await page.keyboard.press('Enter')
        const alert = page.getByRole('alert').filter({ hasText: 'No valid credential' })
        await alert.getByRole('button', { name: 'Sign in again' }).waitFor()
        expect(await page.locator('.oc-thread').innerText()).toContain('Good morning')
        const off = `The clock of this device is 1 hour ${hours > 0 ? 'fast' : 'slow'}.`
        await alert.getByText(off).waitFor()
        await page.close()
        // The clock is right again: what was said goes out by itself, once.
        const later = await context.newPage()
        await later.goto(address)
        await later.locator('.oc-thread-name').getByText('Good morning').click()
        await later.locator('.oc-ai').getByText('Good day.').waitFor()
        expect(await later.locator('.oc-said').allInnerTexts()).toEqual(['Good morning'])
      } finally {
        await browser.close()
      }
    },
    180_000,
  )
})
