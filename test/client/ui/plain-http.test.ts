import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

await describeWith('chromium', 'a page that came by plain HTTP from another machine', (program) => {
  it('signs, chats, copies and goes on after a reload, without what browsers give to https alone', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: scriptedModel(['Good **day**.']) })
    const browser = await launch(program, ['phone.example'])
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(30_000)
      const complaints = complaintsOf(page)
      const seed = randomBytes(32).toString('base64')
      const plain = (address: string) => address.replace(/127\.0\.0\.1|localhost/, 'phone.example')
      const server = plain(app.url)
      await page.goto(plain(site.address(server, app.oracleDid, { seed })))
      expect(await page.evaluate(() => [isSecureContext, typeof crypto.subtle])).toEqual([
        false,
        'undefined',
      ])
      await page.getByLabel('Message', { exact: true }).fill('Good morning')
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai strong').getByText('day').waitFor()
      await page.locator('.oc-ai').getByRole('button', { name: 'Copy' }).click()
      await page.locator('.oc-ai').getByRole('button', { name: 'Copied' }).waitFor()
      const field = page.getByLabel('Message', { exact: true })
      await field.press('Control+v')
      expect(await field.inputValue()).toBe('Good **day**.')
      await page.reload()
      await page.locator('.oc-thread-name').first().click()
      await page.locator('.oc-ai strong').getByText('day').waitFor()
      // A telephone zooms into a field whose letters are smaller.
      await page.getByRole('button', { name: 'Edit' }).first().click()
      const sizes = await page.evaluate(() =>
        [...document.querySelectorAll('.oc-root :is(input, textarea, select)')].map((one) =>
          parseFloat(getComputedStyle(one).fontSize),
        ),
      )
      expect(sizes.length).toBeGreaterThanOrEqual(3)
      expect(Math.min(...sizes)).toBeGreaterThanOrEqual(16)
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 180_000)
})
