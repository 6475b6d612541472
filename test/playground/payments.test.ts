import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { headersOf } from '../support/browser.ts'
import { faultsAt, sentence } from '../support/nothing-kept.ts'
import { servedPage } from '../support/served-page.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'the walk from a price to a paid claim', (program) => {
  it('two answers, a panel with one claim of 0.01 DEV and its two turns, Pay, and the message goes out by itself', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'paid-page-'))
    const { server, url, page, modules, complaints } = await servedPage(
      program,
      'examples/payments/server.ts',
      { DATA_DIR: folder, LOG_LEVEL: 'trace' },
    )
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    await page.goto(`${url}/playground/`)
    await page.getByText('0.005 DEV a turn').waitFor()
    const answers = page.getByRole('article', { name: 'Oracle' })
    const mine = page.getByRole('article', { name: 'You' })
    const say = async (message: string) => {
      await page.getByLabel('Message', { exact: true }).fill(message)
      await page.getByRole('button', { name: 'Send' }).click()
    }
    for (const count of [1, 2]) {
      await say(`Message ${count}: ${sentence}`)
      await expect.poll(() => mine.count(), { timeout: 30_000 }).toBe(count)
      await answers.nth(count - 1).waitFor()
      await page.getByRole('button', { name: 'Send' }).waitFor()
    }
    const before = await answers.count()
    await page.setViewportSize({ width: 900, height: 480 })
    await say(`Message 3: ${sentence}`)
    const panel = page.getByRole('region', { name: 'To be paid first' })
    await panel.getByText('0.01 DEV').waitFor()
    await panel.getByText('2 answers: 0.005 DEV + 0.005 DEV').waitFor()
    const pay = panel.getByRole('button', { name: 'Pay' })
    // Nobody has to look for the button below the edge of the conversation.
    await expect.poll(() => pay.evaluate(isInConversation), { timeout: 30_000 }).toBe(true)
    await pay.click()
    await expect.poll(() => answers.count(), { timeout: 30_000 }).toBeGreaterThan(before)
    expect(await panel.count()).toBe(0)
    expect(await mine.count()).toBe(3)
    await page.getByText('This turn cost 0.005 DEV').waitFor()
    expect(modules).toContain('/payments-chat/within.js')
    expect(modules).not.toContain('/memory-page/view.js')
    expect(modules).not.toContain('/payments/view.js')

    // What the ledger says, and the view that the plugin brings to the page.
    const [request] = await Promise.all([
      page.waitForRequest((one) => one.url().endsWith('/payments/account')),
      page.getByRole('link', { name: 'Payments' }).click(),
    ])
    const headers = await headersOf(request)
    const account = await fetch(`${url}/payments/development/account`, { headers })
    expect(await account.json()).toMatchObject({ balance: String(1_000_000_000 - 10_000) })
    await page.getByText('0.005 DEV a turn.', { exact: true }).waitFor()
    const claims = page.getByRole('region', { name: 'Claims' })
    await claims.getByText('0.01 DEV, paid').waitFor()
    expect(await page.getByRole('region', { name: 'Turns' }).getByRole('row').count()).toBe(4)
    await page.getByLabel('Amount in DEV').fill('1.5')
    await page.getByRole('button', { name: 'Pay in advance' }).click()
    await page.getByText('The balance is 1.495 DEV.').waitFor({ state: 'attached' })
    expect(complaints.filter((line) => !line.includes('402'))).toEqual([])
    await server.end()
    expect(await faultsAt({ dataDir: folder }, [server.output()])).toEqual([])
  }, 180_000)
})

/** Whether a part of the conversation is where the reader sees it. */
function isInConversation(part: Element): boolean {
  const { top, bottom } = part.getBoundingClientRect()
  const edges = part.closest('.oc-messages')?.getBoundingClientRect()
  return edges !== undefined && top >= edges.top && bottom <= edges.bottom
}
