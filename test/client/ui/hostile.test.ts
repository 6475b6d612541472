import { randomBytes } from 'node:crypto'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import { createDevelopmentWallet } from '../../../client/wallet.ts'
import { complaintsOf, launch } from '../../support/browser.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'
import { hostileTexts } from './hostile-texts.ts'

const elements =
  'a article aside bdi blockquote br button code dd del details div dl dt em form h2 h3 h4 h5 h6 header hr img input kbd label li ' +
  'main mark nav ol option p pre search section select small span strong summary table tbody td textarea th thead time tr ul'

/** What stands in the chat that may not stand there. */
const wrongIn = (page: Page) =>
  page.evaluate((known) => {
    const names = new Set(known.split(' '))
    const wrong: string[] = []
    for (const one of document.querySelectorAll('.oc-root *')) {
      const name = one.tagName.toLowerCase()
      if (!names.has(name)) wrong.push(name)
      for (const { name: of, value } of one.attributes) {
        if (/^on|^srcdoc$|^srcset$|^action$|^formaction$/i.test(of)) wrong.push(`${name} ${of}`)
        if (of === 'style' && /url|position/i.test(value)) wrong.push(`${name} ${value}`)
        if (of === 'src' && !/^data:image\/(png|jpeg|gif|webp)[;,]/.test(value)) wrong.push(value)
        if (of === 'href' && !/^(https?:\/\/|mailto:|tel:)/.test(value)) wrong.push(value)
      }
      if (name === 'a' && one.getAttribute('rel') !== 'noopener noreferrer nofollow')
        wrong.push(`rel ${one.getAttribute('rel')}`)
    }
    return [...new Set(wrong)]
  }, elements)

const echo = definePlugin({
  name: 'echo',
  summary: 'Says what it hears.',
  visibility: 'always',
  examples: hostileTexts.filter((text) => text.length < 100).slice(0, 8),
  tools: {
    say: { description: 'Says.', input: z.object({ text: z.string() }), run: ({ text }) => text },
    ask: {
      description: 'Asks first.',
      approve: true,
      input: z.object({ text: z.string() }).loose(),
      run: () => 'asked',
    },
  },
})

await describeWith('chromium', 'a chat with a hostile model', (program) => {
  it('runs none of its scripts, loads nothing from elsewhere, and draws what the kit draws', async () => {
    expect(hostileTexts.length).toBeGreaterThanOrEqual(60)
    const all = hostileTexts.join('\n\n')
    const args = Object.fromEntries(hostileTexts.map((text, nth) => [`${text}${nth}`, text]))
    const model = scriptedModel([
      { text: all, calls: [call('say', { text: all })] },
      { text: all, calls: [call('ask', { text: all, ...args })] },
    ])
    await using site = await kitPage()
    await using app = await testApp({ plugins: [echo], model })
    const browser = await launch(program)
    try {
      const seed = randomBytes(32)
      const wallet = await createDevelopmentWallet({ seed: new Uint8Array(seed) })
      const authorization = `Bearer ${(await wallet.createInvocation(app.oracleDid)).serialized}`
      const created = await fetch(`${app.url}/sessions`, {
        ...{ method: 'POST', headers: { authorization, 'x-auth-type': 'ucan' } },
      })
      const { sessionId } = (await created.json()) as { sessionId: string }
      const page = await browser.newPage()
      page.setDefaultTimeout(60_000)
      const complaints = complaintsOf(page)
      const address = site.address(app.url, app.oracleDid, {
        ...{ seed: seed.toString('base64'), session: sessionId },
      })
      const own = [new URL(address).origin, app.url, app.url.replace('http', 'ws')]
      const strange: string[] = []
      page.context().on('request', (request) => {
        const { origin, protocol, href } = new URL(request.url())
        if (!own.includes(origin) && protocol !== 'data:') strange.push(href)
      })
      const opened: string[] = []
      page.on('dialog', (dialog) => (opened.push(dialog.message()), void dialog.dismiss()))
      page.on('popup', (popup) => opened.push(popup.url()))
      page.on('frameattached', (frame) => opened.push(frame.url()))
      // A history and a list in which everything that a server tells is hostile.
      const times = { createdAt: '2026-01-01T00:00:00Z', lastUpdatedAt: '2026-01-01T00:00:00Z' }
      const headers = { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*' }
      await page.route(`${app.url}/sessions?**`, (route) =>
        route.fulfill({
          headers,
          json: {
            sessions: hostileTexts.map((title, nth) => ({
              ...{ sessionId: `s${nth}`, title, ...times },
              hits: [{ messageId: title, snippet: title, marks: [[0, 3]] }],
            })),
          },
        }),
      )
      const history = hostileTexts.flatMap((text, nth) => [
        {
          ...{ id: `h${nth}`, type: 'human', content: text, isComplete: true, origin: text },
          attachments: [{ fileId: `f${nth}`, filename: text, mimetype: text }],
        },
        {
          ...{ id: `a${nth}`, type: 'ai', isComplete: true, reasoning: text, model: text },
          content: [
            text,
            { name: text, props: { [text]: text } },
            { name: '__proto__', props: { children: text } },
            {
              name: 'script',
              props: { children: text, dangerouslySetInnerHTML: { __html: text } },
            },
          ],
          toolCalls: [
            {
              ...{
                id: `c${nth}`,
                name: text,
                args: { [text]: text },
                status: 'done',
                output: text,
              },
              parts: [{ type: 'file', name: text, mediaType: text, fileId: text, bytes: 1 }],
            },
            { id: `e${nth}`, name: text, args: {}, status: 'error', error: text },
          ],
        },
      ])
      let isFirst = true
      await page.route(`**/sessions/${sessionId}/messages?*`, (route) => {
        if (route.request().method() !== 'GET' || !isFirst) return route.continue()
        isFirst = false
        return route.fulfill({ headers, json: { messages: history } })
      })
      await page.goto(address)
      await page.locator('.oc-ai').first().waitFor()
      const box = page.locator('.oc-messages')
      const older = () =>
        page.evaluate(() => document.querySelector<HTMLElement>('.oc-older')?.click())
      await expect
        .poll(() => older().then(() => page.locator('.oc-message').count()), { timeout: 60_000 })
        .toBe(history.length)
      await page.evaluate(() =>
        document.querySelectorAll('details').forEach((one) => (one.open = true)),
      )
      expect(await wrongIn(page)).toEqual([])
      await page.getByRole('searchbox').or(page.locator('.oc-search')).first().fill('evil')
      await expect.poll(() => page.locator('.oc-threads mark').count()).toBeGreaterThan(10)
      expect(await wrongIn(page)).toEqual([])

      // The names of files, in the composer too.
      expect(await page.locator('.oc-files button').count()).toBeGreaterThanOrEqual(
        2 * hostileTexts.length,
      )
      const [name = ''] = hostileTexts.filter((text) => text.includes('onerror'))
      await page
        .locator('.oc-composer input[type=file]')
        .setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from('x') })
      await page.locator('.oc-attachments').getByText('onerror').waitFor()
      await page.locator('.oc-attachments progress').waitFor({ state: 'detached' })
      expect(await wrongIn(page)).toEqual([])

      // A turn that streams all of it, with a result, an approval and its form.
      await page.getByLabel('Message', { exact: true }).fill(all.replaceAll('\u0000', ''))
      await page.keyboard.press('Enter')
      await page.locator('.oc-approval').waitFor()
      await page.getByRole('button', { name: 'Edit' }).last().click()
      await page.evaluate(() =>
        document.querySelectorAll('details').forEach((one) => (one.open = true)),
      )
      expect(await wrongIn(page)).toEqual([])
      expect(await box.textContent()).toContain(`<script>document.title='hacked'</script>`)
      // Nothing waits to be loaded either.
      await page.evaluate(() => new Promise((done) => requestIdleCallback(() => done(null))))
      expect(await page.title()).toBe('A page with a chat')
      expect(strange).toEqual([])
      expect(opened).toEqual([])
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 300_000)
})
