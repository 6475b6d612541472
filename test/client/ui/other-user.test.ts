import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

await describeWith('chromium', 'a page whose user changes while a chat is open', (program) => {
  it('shows and sends nothing of the first user for the second, and gives all of it back to the first', async () => {
    await using site = await kitPage()
    const model = scriptedModel(['For Ada.', 'For Bob.', 'For Ada again.'])
    await using app = await testApp({ plugins: [], model })
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(40_000)
      const complaints = complaintsOf(page)
      await page.goto(site.address(app.url, app.oracleDid))
      const beginAs = (seed: string) =>
        page.evaluate(async (text) => {
          const { page: made } = window as unknown as { page: Record<string, any> } // any: what the page lends
          const seed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
          made.show(await made.createDevelopmentWallet({ seed }))
        }, seed)
      const [ada, bob] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
      const field = page.getByLabel('Message', { exact: true })
      const chats = page.getByRole('navigation', { name: 'Chats' })
      const say = async (text: string) => {
        await field.fill(text)
        await page.keyboard.press('Enter')
      }
      await beginAs(ada)
      await say('Said by Ada')
      await page.getByText('For Ada.', { exact: true }).first().waitFor()
      await chats.getByText('Said by Ada').waitFor()
      // One more message that waits, a file that is there, and a draft.
      await page.route(/\/messages\//, (route) =>
        route.request().method() === 'POST' ? route.abort() : route.continue(),
      )
      await say('Waits for Ada')
      await page.locator('.oc-waiting').getByText('Waits for Ada').waitFor()
      await page.locator('input[type=file]').setInputFiles({
        ...{ name: 'of-ada.txt', mimeType: 'text/plain' },
        buffer: Buffer.from('Of Ada.'),
      })
      await page.locator('.oc-attachments').getByText('of-ada.txt').waitFor()
      await field.fill('Written by Ada')

      await beginAs(bob)
      await page.locator('.oc-thread[data-state=empty]').waitFor()
      expect(await page.locator('#root').innerText()).not.toMatch(/Ada/)
      expect(await field.inputValue()).toBe('')
      const bodies: string[] = []
      page.on('request', (one) => bodies.push(one.postData() ?? ''))
      await page.unroute(/\/messages\//)
      await say('Said by Bob')
      await page.getByText('For Bob.', { exact: true }).first().waitFor()
      await chats.getByText('Said by Bob').waitFor()
      expect(await page.locator('#root').innerText()).not.toMatch(/Ada/)
      expect(bodies.join(' ')).not.toMatch(/Ada/)

      await beginAs(ada)
      await chats.getByText('Said by Ada').click()
      await page.getByText('For Ada again.', { exact: true }).first().waitFor()
      expect(await page.locator('.oc-said').allInnerTexts()).toEqual([
        'Said by Ada',
        'Waits for Ada',
      ])
      expect(await field.inputValue()).toBe('Written by Ada')
      expect(await page.locator('#root').innerText()).not.toMatch(/Bob/)
      expect(complaints.filter((text) => !/ERR_FAILED/.test(text))).toEqual([])
    } finally {
      await browser.close()
    }
  }, 120_000)
})
