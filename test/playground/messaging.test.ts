import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { expect, it, onTestFinished } from 'vitest'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { OpenOracle } from '../support/open-oracle.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

interface Axe {
  run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }>
}

/** What axe finds on a page. */
async function faultsOf(page: Page): Promise<string[]> {
  const axe = await readFile(join(root, 'node_modules/axe-core/axe.min.js'), 'utf8')
  await page.evaluate((source) => (0, eval)(source), axe).catch(() => page.evaluate(axe))
  return page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { axe: Axe }).axe.run()
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' | ')}`)
  })
}

await describeWith('chromium', 'the messenger in the page', (program) => {
  const open = new OpenOracle({ plugins: [playground], env: { NODE_ENV: 'development' } })

  it('links an account by a code, shows it and the status, and lets it go', async () => {
    await builtPage()
    const browser = await launch(program)
    onTestFinished(() => browser.close())
    for (const [width, colorScheme, name] of [
      [1280, 'light', 'mia'],
      [375, 'dark', 'noa'],
    ] as const) {
      const person = await open.person(name)
      const room = await open.directRoom(person)
      const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme })
      context.setDefaultTimeout(30_000)
      const page = await context.newPage()
      const complaints = complaintsOf(page)
      await page.goto(`${open.app.url}/playground/#/messaging`)
      await page.getByText('No account is linked yet.').waitFor()
      await page.getByRole('heading', { name: 'The oracle’s account' }).waitFor()
      await page.getByText('attending').waitFor()
      await page.getByRole('button', { name: 'Get a code' }).click()
      const line = await page.locator('[role=status] code').filter({ hasText: '!link' }).innerText()
      expect(await faultsOf(page)).toEqual([])
      await person.say(room, line)
      await person.hears(room, 'This account is linked to you now.')
      const linked = page.getByRole('list', { name: 'Linked accounts' })
      await linked.getByText(person.userId).waitFor()
      await expect.poll(() => page.getByText('!link').count()).toBe(0)
      const picture = process.env.MESSENGER_PICTURE
      if (picture !== undefined) await page.screenshot({ path: `${picture}-${width}.png` })
      expect(await faultsOf(page)).toEqual([])
      const sideways = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement
        return scrollWidth - clientWidth
      })
      expect(sideways).toBeLessThanOrEqual(1)
      await linked.getByRole('button', { name: 'Unlink' }).click()
      await page.getByText('No account is linked yet.').waitFor()
      await person.say(room, '!status')
      await person.hears(room, 'I take you for a guest.')
      expect(complaints).toEqual([])
      await context.close()
    }
  }, 120_000)
})
