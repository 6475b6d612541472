import { expect, it } from 'vitest'
import { servedPage } from '../support/served-page.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'memory in the page', (program) => {
  it('remembers what is asked, answers from it in a new chat, shows the quote, and notices what changed', async () => {
    // As `npm start` starts it, without a key and without network; a minute of quiet is a second here.
    const { url, page, complaints } = await servedPage(program, 'start.js', {
      MEMORY_AFTER_SECONDS: '1',
    })
    const answers = page.getByRole('article', { name: 'Oracle' })
    const answered = (words: string) => answers.locator('.text').filter({ hasText: words })
    const say = async (message: string) => {
      await page.getByLabel('Message', { exact: true }).fill(message)
      await page.getByRole('button', { name: 'Send' }).click()
    }
    const newChat = async () => {
      const before = page.url()
      await page.getByRole('button', { name: 'New chat' }).click()
      await page.waitForURL((now) => now.href !== before)
      await page.getByLabel('Message', { exact: true }).waitFor()
    }
    await page.goto(`${url}/playground/#/chat`)
    await page.waitForURL(/#\/chat\/.+/)
    await say('remember that I live in Lusaka')
    await page.getByRole('button', { name: 'Approve' }).click()
    await answered('I remember from now on: “I live in Lusaka”').waitFor()
    const first = page.url() // The first words have made the session.

    await newChat()
    await say('where do I live?')
    await answered('You told me: “I live in Lusaka” (home').waitFor()
    await page.getByText('used 1').click()
    await page.locator('.used q').filter({ hasText: 'live in Lusaka' }).waitFor()
    await page.locator('.used').getByRole('button', { name: 'Open the chat' }).click()
    await page.waitForURL(first)

    await newChat()
    await say('I moved to Ndola')
    await answers.first().waitFor()
    await newChat()
    // The reading begins after a second of quiet: a question that comes too early is asked again.
    await expect
      .poll(
        async () => {
          await say('where do I live?')
          await page.getByRole('button', { name: 'Send' }).waitFor()
          return (await answers.last().textContent()) ?? ''
        },
        { timeout: 60_000, interval: 1_000 },
      )
      .toContain('lives in Ndola')

    await page.getByRole('link', { name: 'Memory' }).click()
    const list = page.getByRole('list', { name: 'Memories' })
    await list.getByRole('link', { name: 'lives in Ndola' }).click()
    const history = page.getByRole('list', { name: 'History' }).getByRole('listitem')
    await expect.poll(() => history.allTextContents()).toHaveLength(2)
    const [before = '', now = ''] = await history.allTextContents()
    expect(before).toMatch(/I live in Lusaka.* until /)
    expect(now).toMatch(/lives in Ndola.* now/)
    await page.getByRole('button', { name: 'Erase', exact: true }).click()
    await expect.poll(() => list.getByRole('listitem').count()).toBe(0)
    expect(complaints).toEqual([])
  }, 180_000)
})
