import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { servedPage } from '../support/served-page.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'memory in the page', (program) => {
  it('remembers what is asked, answers from it in a new chat, shows the quote, and notices what changed', async () => {
    // As `npm start` starts it, without a key and without network; a minute of quiet is a second here.
    const { url, page, modules, complaints } = await servedPage(program, 'start.js', {
      MEMORY_AFTER_SECONDS: '1',
    })
    const answers = page.getByRole('article', { name: 'Oracle' })
    const answered = (words: string) => answers.locator('.oc-markdown').filter({ hasText: words })
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
    // A chat fetches what stands in it, and neither whole view.
    expect(modules).toContain('/memory-chat/within.js')
    expect(modules).not.toContain('/memory-page/view.js')
    expect(modules).not.toContain('/payments/view.js')
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

  it('is ruled in its view: added to, searched, corrected, pinned, exported, kept out of a chat, erased', async () => {
    const { url, page, complaints } = await servedPage(program, 'start.js')
    await page.goto(`${url}/playground/#/chat`)
    await page.waitForURL(/#\/chat\/.+/)
    await page.getByLabel('Message', { exact: true }).fill('Good morning')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('article', { name: 'Oracle' }).first().waitFor()
    await page.getByRole('link', { name: 'Memory' }).click()
    const list = page.getByRole('list', { name: 'Memories' })
    const known = () => list.getByRole('link').allTextContents()
    for (const text of ['keeps two goats', 'cooks with pellets']) {
      await page.getByLabel('Remember a sentence').fill(text)
      await page.getByRole('button', { name: 'Remember', exact: true }).click()
      await list.getByRole('link', { name: text }).waitFor()
    }

    await page.getByLabel('Search', { exact: true }).fill('goats')
    await expect.poll(known).toEqual(['keeps two goats'])
    await list.getByRole('link').click()
    await page.getByLabel('Correct it').fill('keeps three goats')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { name: 'keeps three goats' }).waitFor()
    await page.getByRole('button', { name: 'Pin', exact: true }).click()
    await page.getByRole('button', { name: 'Unpin' }).waitFor()
    await page.getByLabel('Search', { exact: true }).fill('')
    await expect
      .poll(async () => (await known()).toSorted())
      .toEqual(['cooks with pellets', 'keeps three goats'])
    await list.getByRole('listitem').filter({ hasText: 'pinned' }).waitFor()

    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Export' }).click(),
    ])
    const exported = JSON.parse(await readFile(await file.path(), 'utf8'))
    const texts = exported.memories.map((one: { text: string }) => one.text)
    expect(texts.toSorted()).toEqual(['cooks with pellets', 'keeps three goats'])

    const keptOut = page.getByLabel('Keep the open chat out of memory')
    const taken = page.waitForResponse(
      (answer) => answer.url().includes('/memory/sessions/') && answer.request().method() === 'PUT',
    )
    await keptOut.check()
    expect((await taken).status()).toBe(200)
    // The chat looks different.
    await page.getByRole('link', { name: 'Chat', exact: true }).click()
    await page.locator('.incognito').waitFor()

    await page.getByRole('link', { name: 'Memory' }).click()
    await page.getByRole('button', { name: 'Erase all…' }).click()
    await page.getByRole('button', { name: 'Erase all', exact: true }).click()
    await page.getByText('Nothing is remembered here.').waitFor()
    expect(complaints).toEqual([])
  }, 180_000)
})
