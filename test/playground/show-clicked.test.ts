import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { en } from '../../client/ui/languages/en.ts'
import { states } from '../../plugins/showcase/scenes.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { root, startServer } from '../support/process.ts'
import { describeWith } from '../support/services.ts'
import { ofThePage, seenAtTheEnd } from '../support/shown-states.ts'

await describeWith('chromium', 'the states of /show on what npm start starts', (program) => {
  it('each is reached by clicks, an approval is edited and a payment settled, and nothing leaves this machine', async () => {
    await builtPage()
    const folder = await mkdtemp(join(tmpdir(), 'clicked-'))
    const server = startServer(
      'start.js',
      { DATA_DIR: folder, RATE_LIMIT_PER_MINUTE: '100000' },
      root,
    )
    onTestFinished(async () => {
      await server.end()
      await rm(folder, { recursive: true, force: true })
    })
    const browser = await launch(program)
    onTestFinished(() => browser.close())
    const url = await server.url
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
    page.setDefaultTimeout(60_000)
    const complaints = complaintsOf(page)
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).host))
    await page.goto(`${url}/playground`)
    const ends = seenAtTheEnd(en)
    for (const state of states) {
      await page.getByRole('button', { name: 'New chat' }).click()
      const suggestion = page.getByRole('button', { name: `/show ${state}`, exact: true })
      const others = page.getByRole('button', { name: 'Others' })
      await suggestion.or(others).first().waitFor()
      while (!(await suggestion.isVisible())) await others.click()
      await suggestion.click()
      const [where = '', what = ''] = ends[state] ?? []
      await page.locator(where).filter({ hasText: what }).last().waitFor()
      await page.getByRole('button', { name: 'Send', exact: true }).waitFor()
      if (state === 'approval') {
        const card = page.locator('.oc-approval')
        await card.getByRole('button', { name: 'Edit' }).click()
        await card.getByLabel('seats').fill('3')
        await card.getByRole('button', { name: 'Approve' }).click()
        await page.locator('.oc-ai').getByText('That is done as you decided.').waitFor()
        const call = page.locator('.oc-tool', { hasText: 'send_invitation' }).last()
        await call.locator('summary').click()
        await call
          .getByText(/"seats": ?3/)
          .first()
          .waitFor()
      }
      if (state === 'payment') {
        const payment = page.getByRole('region', { name: en.payment })
        await payment.getByText('2 SHOW').waitFor()
        await payment.getByRole('button', { name: 'Pay' }).click()
        await page.locator('.oc-ai').getByText('It is paid').waitFor()
        expect(await payment.count()).toBe(0)
      }
    }
    expect([...new Set(asked)]).toEqual([new URL(url).host])
    expect(ofThePage(complaints)).toEqual([])
  }, 400_000)
})
