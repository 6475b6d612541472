import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, headersOf, launch } from '../support/browser.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'the list of chats in the playground', (program) => {
  let browser: Browser
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
  }, 90_000)
  afterAll(() => browser?.close())

  /** An oracle that answers so, and a page that is still empty. */
  async function open(answers: readonly string[]) {
    const { default: playground } = await import('../../plugins/playground/index.ts')
    const app = await testApp({
      plugins: [playground],
      model: scriptedModel(answers),
      env: { NODE_ENV: 'development', RATE_LIMIT_PER_MINUTE: '100000' },
    })
    onTestFinished(() => app.close())
    const page = await browser.newPage({ viewport: { width: 1280, height: 700 } })
    onTestFinished(() => page.close())
    page.setDefaultTimeout(30_000)
    return { app, page, complaints: complaintsOf(page) }
  }

  it('reaches the oldest of 200 chats by scrolling and by search, and takes a deletion back', async () => {
    const { app, page, complaints } = await open(['The pangolin curls up.', 'Fine.'])
    const asking = page.waitForRequest((request) => request.url().includes('/sessions?'))
    await page.goto(`${app.url}/playground/#/chat`)
    const headers = await headersOf(await asking)
    await page.getByLabel('Message', { exact: true }).fill('Tell me of animals')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.oc-ai').getByText('The pangolin curls up.').waitFor()
    const chats = page.getByRole('navigation', { name: 'Chats' })
    const oldest = chats.getByRole('button', { name: 'Tell me of animals', exact: true })
    await oldest.waitFor()
    for (let nth = 0; nth < 198; nth++)
      await fetch(`${app.url}/sessions`, { method: 'POST', headers })
    await page.reload()
    const rows = chats.locator('.oc-thread-name')
    await expect.poll(() => rows.count()).toBe(40)
    // The first older page comes after the list was read again: it is shown all the same.
    const isRead = Promise.withResolvers<void>()
    await page.route(
      /sessions\?.*cursor/,
      async (route) => (await isRead.promise, route.continue()),
      {
        times: 1,
      },
    )
    const older = page.waitForRequest(/sessions\?.*cursor/)
    await chats.locator('.oc-days').hover()
    await page.mouse.wheel(0, 100_000)
    await older
    const again = page.waitForResponse((one) => one.url().endsWith('branches=newest'))
    await fetch(`${app.url}/sessions`, { method: 'POST', headers })
    await again
    isRead.resolve()
    await expect.poll(() => rows.count()).toBeGreaterThan(79)
    await expect
      .poll(
        async () => {
          await chats.locator('.oc-days').hover()
          await page.mouse.wheel(0, 100_000)
          return rows.count()
        },
        { timeout: 60_000 },
      )
      .toBe(200)
    await oldest.waitFor()

    await chats.getByLabel('Search chats').fill('PANGO curl')
    await expect.poll(() => rows.count()).toBe(1)
    await chats.getByRole('button', { name: 'The pangolin curls up.' }).waitFor()
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/list.png` })
    await chats.getByRole('button', { name: 'Delete: Tell me of animals' }).click()
    await expect.poll(() => rows.count()).toBe(0)
    await chats.getByRole('button', { name: 'Undo' }).click()
    await expect.poll(() => rows.count()).toBe(1)
    const total = async () =>
      ((await (await fetch(`${app.url}/sessions`, { headers })).json()) as { total: number }).total
    expect(await total()).toBe(200)
    // A page that closes counts as a yes.
    await chats.getByRole('button', { name: 'Delete: Tell me of animals' }).click()
    await expect.poll(() => rows.count()).toBe(0)
    await page.waitForTimeout(500)
    expect(await total()).toBe(200)
    await page.goto('about:blank')
    await expect.poll(total).toBe(199)
    expect(complaints).toEqual([])
  }, 180_000)

  it('shows what is made, said, renamed and deleted elsewhere, and stays where its reader is', async () => {
    const { app, page, complaints } = await open([
      'The pangolin curls up.',
      'So does the hedgehog.',
    ])
    const asking = page.waitForRequest((request) => request.url().includes('/sessions?'))
    await page.goto(`${app.url}/playground/#/chat`)
    const headers = { ...(await headersOf(await asking)), 'content-type': 'application/json' }
    const ask = async (method: string, path: string, body?: object) => {
      const told = { method, headers, ...(body && { body: JSON.stringify(body) }) }
      return (await (await fetch(app.url + path, told)).json()) as { sessionId: string }
    }
    const chats = page.getByRole('navigation', { name: 'Chats' })
    const named = (name: string) => chats.getByRole('button', { name, exact: true })
    const { sessionId } = await ask('POST', '/sessions')
    await chats.locator('.oc-thread-name').waitFor()
    await ask('POST', `/messages/${sessionId}`, { message: 'Tell me of animals', stream: false })
    await named('Tell me of animals').waitFor()
    await ask('PATCH', `/sessions/${sessionId}`, { title: 'Animals' })
    await named('Animals').waitFor()

    for (let nth = 0; nth < 60; nth++) await ask('POST', '/sessions')
    const rows = chats.locator('.oc-thread-name')
    await expect
      .poll(async () => {
        await chats.locator('.oc-days').hover()
        await page.mouse.wheel(0, 100_000)
        return rows.count()
      })
      .toBe(61)
    await named('Animals').waitFor()
    const top = () => chats.locator('.oc-days').evaluate((list) => list.scrollTop)
    const before = await top()
    const { sessionId: other } = await ask('POST', '/sessions')
    await expect.poll(() => rows.count()).toBe(62)
    expect(await top()).toBeGreaterThanOrEqual(before)
    await ask('DELETE', `/sessions/${sessionId}`)
    await named('Animals').waitFor({ state: 'detached' })
    await ask('DELETE', `/sessions/${other}`)
    await expect.poll(() => rows.count()).toBe(60)
    expect(complaints).toEqual([])
  }, 90_000)

  it('a deletion that nobody takes back is one on the server, while the page stays open', async () => {
    const { app, page, complaints } = await open(['Fine.'])
    const asking = page.waitForRequest((request) => request.url().includes('/sessions?'))
    await page.goto(`${app.url}/playground/#/chat`)
    const headers = await headersOf(await asking)
    await page.getByLabel('Message', { exact: true }).fill('How are you?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.oc-ai').getByText('Fine.').waitFor()
    const { sessions } = (await (await fetch(`${app.url}/sessions`, { headers })).json()) as {
      sessions: { sessionId: string }[]
    }
    const [{ sessionId } = { sessionId: '' }] = sessions
    const messages = async () =>
      (await fetch(`${app.url}/sessions/${sessionId}/messages`, { headers })).status
    expect(await messages()).toBe(200)
    const chats = page.getByRole('navigation', { name: 'Chats' })
    await chats.getByRole('button', { name: 'Delete: How are you?' }).click()
    await chats.getByRole('button', { name: 'Undo' }).waitFor()
    await expect.poll(messages, { timeout: 60_000 }).toBe(404)
    await chats.getByRole('button', { name: 'Undo' }).waitFor({ state: 'hidden' })
    expect(complaints).toEqual([])
  }, 120_000)
})
