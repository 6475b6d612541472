import { randomBytes } from 'node:crypto'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

/** Everything that lies in a database of the page, as far as a script can read it. */
const dump = (page: Page, name: string) =>
  page.evaluate(async (database) => {
    const known = (await indexedDB.databases()).map((one) => one.name)
    if (!known.includes(database)) return { rows: 0, exported: 0, text: '' }
    const opened = indexedDB.open(database)
    await new Promise((resolve) => (opened.onsuccess = resolve))
    const asked = opened.result.transaction('kept').objectStore('kept').getAll()
    await new Promise((resolve) => (asked.onsuccess = resolve))
    const all = asked.result as { key: CryptoKey; iv: Uint8Array; data: ArrayBuffer }[]
    opened.result.close()
    let exported = 0
    for (const { key } of all)
      for (const format of ['raw', 'jwk'] as const)
        await crypto.subtle.exportKey(format, key).then(
          () => exported++,
          () => undefined,
        )
    const bytes = all.map(({ data }) => String.fromCharCode(...new Uint8Array(data)))
    return { rows: all.length, exported, text: bytes.join() + JSON.stringify(all) }
  }, name)

await describeWith('chromium', 'tokens that a real browser keeps', (program) => {
  it('serve after a reload, without a question to the wallet, and no script can take them', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: scriptedModel([]) })
    const browser = await launch(program)
    try {
      const context = await browser.newContext()
      context.setDefaultTimeout(40_000)
      const page = await context.newPage()
      const complaints = complaintsOf(page)
      const seed = randomBytes(32).toString('base64')
      const sent: string[] = []
      page.on('request', (request) => {
        const token = request.headers().authorization?.split(' ')[1]
        if (token) sent.push(token)
      })
      const open = async (more: object = {}) => {
        await page.goto('about:blank') // the page of before may still be asking
        sent.length = 0
        await page.goto(site.address(app.url, app.oracleDid, { seed, ...more }))
        await page.locator('.oc-threads[data-state=ready]').waitFor({ state: 'attached' })
        return new Set(sent)
      }
      const first = await open()
      await expect.poll(async () => (await dump(page, 'oracle-tokens')).rows).toBe(2)
      expect(first.size).toBe(1)
      expect(await open()).toEqual(first)
      const { text, exported } = await dump(page, 'oracle-tokens')
      const stored = text + (await page.evaluate(() => JSON.stringify({ ...localStorage })))
      const [token = ''] = first
      expect(token.length).toBeGreaterThan(200)
      for (let at = 0; at + 24 < token.length; at += 12)
        expect(stored).not.toContain(token.slice(at, at + 24))
      expect(exported).toBe(0)
      // A page that wants none of it asks its wallet at each load.
      const fresh = await open({ forgetful: 'yes' })
      expect([...fresh].some((one) => first.has(one))).toBe(false)
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 120_000)

  it('are not missed where the browser refuses its database: the chat works', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: scriptedModel(['Heard.']) })
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(40_000)
      const complaints = complaintsOf(page)
      await page.addInitScript(() => {
        const refuse = () => {
          throw new DOMException('The user denied it.', 'SecurityError')
        }
        Object.defineProperty(indexedDB, 'open', { value: refuse })
      })
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(app.url, app.oracleDid, { seed }))
      await page.getByLabel('Message', { exact: true }).fill('Is anybody there?')
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai').getByText('Heard.').waitFor()
      await page.getByText('after a reload the wallet is asked again').waitFor()
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 120_000)
})
