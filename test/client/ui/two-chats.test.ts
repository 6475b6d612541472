import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

await describeWith('chromium', 'a page with the chats of two users', (program) => {
  it('has a chat of each, and each key is for the one in which it is pressed', async () => {
    await using site = await kitPage()
    const model = scriptedModel(['For Ada.', 'For Bob.'])
    await using app = await testApp({ plugins: [], model })
    const browser = await launch(program)
    try {
      const page = await browser.newPage({ viewport: { width: 1280, height: 1600 } })
      page.setDefaultTimeout(40_000)
      const complaints = complaintsOf(page)
      await page.goto(site.address(app.url, app.oracleDid))
      const seeds = ['ada', 'bob'].map(() => randomBytes(32).toString('base64'))
      await page.evaluate(async (texts) => {
        const { page: made } = window as unknown as { page: Record<string, any> } // any: what the page lends
        const wallets = texts.map((text) =>
          made.createDevelopmentWallet({
            seed: Uint8Array.from(atob(text), (character) => character.charCodeAt(0)),
          }),
        )
        made.show(...(await Promise.all(wallets)))
      }, seeds)
      const chats = ['Ada', 'Bob'].map((name, nth) => {
        const frame = page.locator('.oc-chat').nth(nth)
        return { name, frame, field: frame.getByLabel('Message', { exact: true }) }
      })
      for (const { name, frame, field } of chats) {
        await field.fill(`Said by ${name}`)
        await page.keyboard.press('Enter')
        await frame.locator('.oc-ai').getByText(`For ${name}.`).waitFor()
        await frame.getByRole('navigation').getByText(`Said by ${name}`).waitFor()
      }
      for (const { name, frame } of chats)
        expect(await frame.innerText()).not.toContain(name === 'Ada' ? 'Bob' : 'Ada')
      for (const { frame, field } of chats) {
        await field.focus()
        await page.keyboard.press('Control+k')
        const search = frame.locator('.oc-search')
        expect(await search.evaluate((one) => one === document.activeElement)).toBe(true)
      }
      // A new chat in one is none in the other.
      await chats[1]!.field.focus()
      await page.keyboard.press('Control+Shift+O')
      await chats[1]!.frame.locator('.oc-thread[data-state=empty]').waitFor()
      expect(await chats[0]!.frame.locator('.oc-said').textContent()).toBe('Said by Ada')
      // The keys are listed once.
      await page.evaluate(() => (document.activeElement as HTMLElement).blur())
      await page.keyboard.press('?')
      await page.getByRole('dialog').waitFor()
      expect(await page.getByRole('dialog').count()).toBe(1)
      await page.keyboard.press('Escape')
      await page.getByRole('dialog').waitFor({ state: 'detached' })
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 120_000)
})
