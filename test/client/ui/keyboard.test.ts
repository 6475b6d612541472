import { randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { complaintsOf, launch } from '../../support/browser.ts'
import { heldModel } from '../../support/held-model.ts'
import { kitPage } from '../../support/kit-page.ts'
import { describeWith } from '../../support/services.ts'

const helper = definePlugin({
  name: 'helper',
  summary: 'Helps.',
  visibility: 'always',
  examples: ['Can you help me?', 'Pay for me.'],
  tools: {
    pay: {
      description: 'Pays.',
      effect: 'write',
      input: z.object({ coins: z.number() }),
      approve: () => true,
      run: ({ coins }) => ({ coins }),
    },
  },
})

const long = Array.from({ length: 120 }, (_, nth) => `Line ${nth}`).join('\n\n')

await describeWith('chromium', 'a chat by the keyboard', (program) => {
  it('has a composer of one line that grows, stops by Escape, edits by ↑, leaves an edit by Escape, and has a way to the end', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: heldModel(['I begin'], [], [long]) })
    const browser = await launch(program)
    try {
      const page = await browser.newPage({ viewport: { width: 900, height: 700 } })
      page.setDefaultTimeout(30_000)
      const complaints = complaintsOf(page)
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(app.url, app.oracleDid, { seed }))
      const field = page.getByLabel('Message', { exact: true })
      const { keyboard } = page
      const lines = () =>
        field.evaluate((one) => {
          const { lineHeight, paddingTop, paddingBottom } = getComputedStyle(one)
          const inside = one.clientHeight - parseFloat(paddingTop) - parseFloat(paddingBottom)
          return Math.round(inside / parseFloat(lineHeight))
        })
      const focused = () =>
        page.evaluate(
          () => document.activeElement?.textContent || document.activeElement?.ariaLabel,
        )
      await field.focus()
      expect(await lines()).toBe(1)
      await keyboard.type('One')
      expect(await lines()).toBe(1)
      await keyboard.press('Shift+Enter')
      await keyboard.type('Two')
      expect(await lines()).toBe(2)
      for (let nth = 0; nth < 40; nth++) await keyboard.press('Shift+Enter')
      const height = await field.evaluate((one) => one.getBoundingClientRect().height)
      expect(height).toBeLessThanOrEqual(700 * 0.4 + 2)
      expect(height).toBeGreaterThan(700 * 0.3)
      await keyboard.press('Control+a')
      await keyboard.type('Tell me all')
      expect(await lines()).toBe(1)
      await keyboard.press('Enter')
      await page.locator('.oc-ai').getByText('Line 119').waitFor()
      await page.getByRole('button', { name: 'Send', exact: true }).waitFor()
      // The first words have made a session, whose composer is another field than the one they were written in.
      const writes = () => field.evaluate((one) => one === document.activeElement)
      expect(await writes()).toBe(true)

      // A new chat is begun to write in it, from wherever the key is pressed.
      const conversation = page.locator('.oc-thread-name').first()
      for (const from of [field, page.getByLabel('Search chats')]) {
        await from.focus()
        await keyboard.press('Control+Shift+O')
        await page.locator('.oc-suggestions, .oc-welcome').first().waitFor()
        await expect.poll(writes).toBe(true)
        await conversation.click()
        await page.locator('.oc-ai').getByText('Line 119').waitFor()
        expect(await writes()).toBe(false)
      }

      // Up in the list of messages there is a way to the end, which stands before the composer.
      await page.getByRole('region', { name: 'Messages' }).focus()
      await keyboard.press('Home')
      // The browser goes there step by step, and a step that is still to come would leave the end again.
      const top = () => page.locator('.oc-messages').evaluate((one) => one.scrollTop)
      await expect.poll(top).toBe(0)
      const end = page.getByRole('button', { name: 'To the newest message' })
      await end.waitFor()
      await field.focus()
      for (
        let presses = 0;
        presses < 5 && (await focused()) !== (await end.textContent());
        presses++
      )
        await keyboard.press('Shift+Tab')
      await keyboard.press('Enter')
      await end.waitFor({ state: 'detached' })
      const left = () =>
        page
          .locator('.oc-messages')
          .evaluate((one) => one.scrollHeight - one.scrollTop - one.clientHeight)
      await expect.poll(left).toBeLessThan(60)

      await field.focus()
      await keyboard.type('Go on for ever')
      await keyboard.press('Enter')
      await page.locator('.oc-ai').last().getByText('I begin').waitFor()
      await keyboard.press('Escape')
      await page.locator('.oc-ending').getByText('Stopped').waitFor()
      expect(await page.locator('.oc-cursor').count()).toBe(0)
      await page.getByRole('button', { name: 'Send', exact: true }).waitFor()

      await field.focus()
      await keyboard.press('ArrowUp')
      const edit = page.locator('.oc-edit textarea')
      expect(await edit.inputValue()).toBe('Go on for ever')
      expect(await edit.evaluate((one) => one === document.activeElement)).toBe(true)
      await keyboard.press('Escape')
      await edit.waitFor({ state: 'detached' })
      expect(await focused()).toBe('Edit')
      expect(await page.locator('.oc-said').allTextContents()).toEqual([
        'Tell me all',
        'Go on for ever',
      ])

      // The keys of an edit are those of the composer.
      await field.focus()
      await keyboard.press('ArrowUp')
      await keyboard.press('Control+a')
      await keyboard.press('Delete')
      await keyboard.press('Enter')
      expect(await edit.inputValue()).toBe('')
      await keyboard.type('Go on')
      await keyboard.press('Shift+Enter')
      await keyboard.type('a while')
      for (const key of ['Enter', 'Escape'])
        await edit.evaluate((one, pressed) => {
          const init = { key: pressed, isComposing: true, bubbles: true, cancelable: true }
          one.dispatchEvent(new KeyboardEvent('keydown', init))
        }, key)
      expect(await edit.inputValue()).toBe('Go on\na while')
      await keyboard.press('Enter')
      await edit.waitFor({ state: 'detached' })
      const said = () => page.locator('.oc-said').allTextContents()
      await expect.poll(said).toEqual(['Tell me all', 'Go on\na while'])
      await page.locator('.oc-ai').last().getByText('I begin').waitFor()
      // Which version is shown is said when its answer is over, and this one stands still until it is stopped.
      await field.focus()
      await keyboard.press('Escape')
      await page.locator('.oc-branches').getByText('2 / 2').waitFor()
      await page.getByRole('button', { name: 'Earlier version' }).click()
      await page.locator('.oc-said').getByText('Go on for ever').waitFor()
      expect(complaints).toEqual([])
    } finally {
      await browser.close()
    }
  }, 120_000)

  it('keeps what is typed while the first words get their session, and the focus', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: scriptedModel(['I see.']) })
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(30_000)
      const made = Promise.withResolvers<void>()
      await page.route('**/sessions', async (route) => {
        if (route.request().method() === 'POST') await made.promise
        await route.continue()
      })
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(app.url, app.oracleDid, { seed }))
      const field = page.getByLabel('Message', { exact: true })
      await field.focus()
      await page.keyboard.type('Tell me all')
      await page.keyboard.press('Enter')
      await page.locator('.oc-said').getByText('Tell me all').waitFor()
      await page.keyboard.type('And')
      made.resolve()
      await page.locator('.oc-ai').getByText('I see.').waitFor()
      await page.keyboard.type(' then')
      expect(await field.inputValue()).toBe('And then')
      // It is no draft of the next chat.
      await page.keyboard.press('Control+Shift+O')
      await page.locator('.oc-ai').waitFor({ state: 'detached' })
      expect(await field.inputValue()).toBe('')
    } finally {
      await browser.close()
    }
  }, 120_000)

  it('has the focus in the field once its button has sent or stopped something', async () => {
    await using site = await kitPage()
    await using app = await testApp({ plugins: [], model: heldModel([], [], ['I see.']) })
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(30_000)
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(app.url, app.oracleDid, { seed }))
      const field = page.getByLabel('Message', { exact: true })
      const writes = () => field.evaluate((one) => one === document.activeElement)
      const button = (name: string) => page.getByRole('button', { name, exact: true })
      await field.fill('Tell me all')
      await button('Send').focus()
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai').getByText('I see.').waitFor()
      await button('Send').waitFor()
      expect(await writes()).toBe(true)
      await page.keyboard.type('And then?')
      await page.keyboard.press('Enter')
      await button('Stop').focus()
      await page.keyboard.press('Enter')
      await button('Send').waitFor()
      await expect.poll(writes).toBe(true)
      // Where words stand in the field, the button can be pressed, and keeps the focus.
      await page.keyboard.type('Hello?')
      await button('Send').focus()
      expect(await writes()).toBe(false)
    } finally {
      await browser.close()
    }
  }, 120_000)

  it('keeps a place for the focus where what had it goes', async () => {
    await using site = await kitPage()
    const steps = ['Hello.', { call: 'pay', args: { coins: 1 } }, 'Paid.', 'Hello again.']
    await using app = await testApp({ plugins: [helper], model: scriptedModel(steps) })
    const browser = await launch(program)
    try {
      const page = await browser.newPage()
      page.setDefaultTimeout(30_000)
      const seed = randomBytes(32).toString('base64')
      await page.goto(site.address(app.url, app.oracleDid, { seed }))
      const focused = () =>
        page.evaluate(() => {
          const { className = '', textContent = '' } = document.activeElement ?? {}
          return className || textContent
        })
      const press = async (name: string | RegExp, key = 'Enter') => {
        await page.getByRole('button', { name, exact: true }).first().focus()
        await page.keyboard.press(key)
      }
      const isReady = () => page.getByRole('button', { name: 'Send', exact: true }).waitFor()
      await press('Can you help me?')
      await page.locator('.oc-ai').getByText('Hello.').waitFor()
      await expect.poll(focused).toBe('oc-messages')

      // A call that waits takes it from there, as from a button that is gone.
      await isReady()
      await press('New chat')
      await press('Pay for me.')
      await page.locator('.oc-approval').waitFor()
      await expect.poll(focused).toBe('oc-approval')
      await press('Approve')
      await page.locator('.oc-ai').getByText('Paid.').waitFor()
      await isReady()

      await press(/^Rename: Pay/)
      await page.keyboard.type('!')
      await page.keyboard.press('Enter')
      await expect.poll(focused).toBe('oc-thread-name')
      await press(/^Rename: Pay/)
      await page.keyboard.press('Escape')
      await expect.poll(focused).toBe('oc-thread-name')
      await press(/^Delete: Can/)
      await page.getByRole('button', { name: 'Undo' }).waitFor()
      await expect.poll(focused).toBe('oc-thread-name')
      await press('Undo')
      await page.getByRole('button', { name: 'Undo' }).waitFor({ state: 'detached' })
      await expect.poll(focused).toBe('New chat')

      await page.getByRole('button', { name: /^Can/ }).click()
      await page.locator('.oc-ai').getByText('Hello.').waitFor()
      await press('Answer again')
      await page.locator('.oc-ai').getByText('Hello again.').waitFor()
      await press('Earlier version')
      await page.locator('.oc-branches').getByText('1 / 2').waitFor()
      await expect.poll(focused).toBe('oc-messages')
    } finally {
      await browser.close()
    }
  }, 120_000)
})
