import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { heldModel } from '../../support/held-model.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'
import { proxyTo } from '../proxy.ts'

await describeWith('chromium', 'a page whose connection is lost for a while', (program) => {
  it('says so to a screen reader, loudly after a while, tries when it is told to, and says that it is back', async () => {
    const model = heldModel(['One '], ['two.'])
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model })
    await using proxy = await proxyTo(app.url)
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(60_000)
      const complaints = complaintsOf(page)
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(proxy.url, app.oracleDid, { seed }))
      await page.getByLabel('Message', { exact: true }).fill('Count')
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai').getByText('One').waitFor()
      const line = page.locator('.oc-connection')
      // What the page shows and says meanwhile, noted in the page itself.
      await page.evaluate(() => {
        const seen = { texts: new Set<string>(), lost: 0, alert: 0 }
        Object.assign(window, { seen })
        new MutationObserver(() => {
          const now = document.querySelector<HTMLElement>('.oc-connection')
          if (now?.dataset.state !== 'lost') return
          seen.lost ||= performance.now()
          if (now.querySelector('[role=alert]')) seen.alert ||= performance.now()
          seen.texts.add(now.querySelector('[aria-hidden]')?.textContent ?? '')
        }).observe(document.body, {
          childList: true,
          subtree: true,
          attributes: true,
          characterData: true,
        })
      })
      proxy.isOffline = true
      proxy.cutAll()
      await line.getByRole('status').getByText('Connection lost.').waitFor()
      await line.getByRole('alert').getByText('Connection lost.').waitFor()
      await line.getByText(/^Trying again in [4-8] sec?\.$/).waitFor()
      const seen = await page.evaluate(() => {
        const { texts, lost, alert } = (
          window as unknown as { seen: { texts: Set<string>; lost: number; alert: number } }
        ).seen
        return { texts: [...texts], after: alert - lost }
      })
      console.log(`The alert came ${Math.round(seen.after)} ms after the line.`)
      // Whatever the machine does, the line was there for eight seconds before it was loud.
      expect(seen.after).toBeGreaterThan(7_500)
      const counted = seen.texts.flatMap((text) => /in (\d+) sec/.exec(text)?.[1] ?? [])
      expect(new Set(counted).size).toBeGreaterThanOrEqual(3)
      // A try that leads nowhere leaves the line as it is.
      await line.getByRole('button', { name: 'Try now' }).click()
      expect(await line.getByRole('alert').innerText()).toContain('Connection lost.')
      proxy.isOffline = false
      await line
        .getByRole('button', { name: 'Try now' })
        .click()
        .catch(() => {}) // It may be back by itself.
      await line.getByRole('status').getByText('Connected again.').waitFor()
      expect(await line.getByRole('button').count()).toBe(0)
      model.goOn()
      await page.locator('.oc-ai').getByText('One two.').waitFor()
      // What the browser itself writes of a request that nobody answered is no word of the page.
      expect(complaints.filter((text) => !/ERR_|WebSocket/.test(text))).toEqual([])
    } finally {
      await browser.close()
    }
  }, 240_000)

  it('is told loudly between the eighth and the ninth second', async () => {
    const model = heldModel(['One '], ['two.'])
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model })
    await using proxy = await proxyTo(app.url)
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(60_000)
      const seed = randomBytes(32).toString('base64')
      await page.clock.install()
      await page.goto(site.address(proxy.url, app.oracleDid, { seed }))
      await page.getByLabel('Message', { exact: true }).fill('Count')
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai').getByText('One').waitFor()
      // From here on time goes by when the test says so: a busy machine makes it no longer.
      await page.clock.pauseAt(new Date(Date.now() + 3_600_000))
      proxy.isOffline = true
      proxy.cutAll()
      const line = page.locator('.oc-connection[data-state=lost]')
      await expect
        .poll(async () => {
          if (await line.count()) return 'lost'
          await page.clock.runFor(50)
          return undefined
        })
        .toBe('lost')
      await page.clock.runFor(7_500)
      expect(await line.getByRole('alert').count()).toBe(0)
      await page.clock.runFor(1_500)
      expect(await line.getByRole('alert').innerText()).toContain('Connection lost.')
      model.goOn()
    } finally {
      await browser.close()
    }
  }, 120_000)
})
