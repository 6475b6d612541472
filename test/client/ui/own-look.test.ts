import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { scriptedModel, testApp, type TestApp } from '#core/testing'
import showcase from '../../../plugins/showcase/index.ts'
import { complaintsOf, launch } from '../../support/browser.ts'
import { type KitPage, kitPage } from '../../support/kit-page.ts'
import { root } from '../../support/process.ts'
import { png } from '../../support/sample-files.ts'
import { describeWith } from '../../support/services.ts'

/** A sheet of a package, with the fallback of each variable that the page has no theme for. */
const sheet = async (path: string) => {
  const text = await readFile(join(root, 'node_modules', path), 'utf8')
  return text.replaceAll(/--theme\(\s*[\w-]+,\s*([^()]+)\)/g, '$1')
}

/** The variables of the sheet, as its page lists them. */
async function variables(): Promise<readonly string[]> {
  const page = await readFile(join(root, 'docs/kit.md'), 'utf8')
  const [, listed = ''] = /generated: variables -->([^]*?)<!-- end/.exec(page) ?? []
  return [...listed.matchAll(/`(--oc-[\w-]+)`/g)].map(([, name = '']) => name)
}

/** What a person sees of each element of the chat. */
const look = (page: Page) =>
  page.evaluate(() => {
    const seen = ['color', 'backgroundColor', 'fontFamily', 'fontSize', 'fontWeight', 'lineHeight']
    const box = ['display', 'padding', 'margin', 'borderWidth', 'borderRadius', 'borderColor']
    const other = ['listStyleType', 'textDecorationLine', 'width', 'height', 'maxWidth']
    return [...document.querySelectorAll('.oc-root, .oc-root *')].map((one) => {
      const style = getComputedStyle(one) as unknown as Record<string, string>
      const values = [...seen, ...box, ...other].map((name) => `${name} ${style[name]}`)
      return `${one.tagName}.${one.className}: ${values.join('; ')}`
    })
  })

/** What is seen otherwise, element by element. */
const differences = (before: readonly string[], now: readonly string[]) =>
  now.flatMap((line, nth) => {
    const was = before[nth]?.split('; ') ?? []
    const changed = line.split('; ').filter((value, at) => value !== was[at])
    return changed.length === 0 ? [] : [`${line.slice(0, 40)}: ${changed.join('; ')}`]
  })

/** An answer in which everything stands that the sheet has a rule for, and the states of `/show` have not. */
const styled = `# One

Some \`code\`, *words*, **more**, ~~less~~ and [a link](https://a.example).

- one
- two

1. first

> said

| a | b |
|---|---|
| 1 | 2 |

\`\`\`js
const words = 'here' // so
\`\`\`

---

![A picture](data:image/png;base64,${png(1).toString('base64')})
`

/** What leaves the page or is cut by it. */
const cut = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll('.oc-root button, .oc-root p, .oc-root summary, textarea')]
      .filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
      .map((one) => one.outerHTML.slice(0, 80)),
  )

await describeWith('chromium', 'the kit in a page with a look of its own', (program) => {
  let browser: Browser
  let site: KitPage
  let app: TestApp
  beforeAll(async () => {
    site = await kitPage()
    app = await testApp({
      plugins: [showcase],
      model: scriptedModel([styled], { reads: { image: ['image/*'] } }),
      env: { FEATURES: 'showcase=on', SHOWCASE_PACE: '0.2', RATE_LIMIT_PER_MINUTE: '10000' },
    })
    browser = await launch(program)
  }, 60_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
    await site?.[Symbol.asyncDispose]()
  })

  async function open(more: { readonly framed?: 'yes' } = {}) {
    const page = await browser.newPage({ viewport: { width: 1000, height: 700 } })
    page.setDefaultTimeout(40_000)
    const complaints = complaintsOf(page)
    const seed = randomBytes(32).toString('base64')
    await page.goto(site.address(app.url, app.oracleDid, { ...more, seed }))
    const field = page.getByLabel('Message', { exact: true })
    const show = async (state: string) => {
      await field.fill(`/show ${state}`)
      await page.getByRole('button', { name: 'Send' }).click()
    }
    const showNew = async (state: string) => {
      await page.getByRole('button', { name: 'New chat' }).click()
      await page.locator('.oc-suggestions').waitFor()
      await show(state)
    }
    return { page, complaints, field, show, showNew }
  }

  it('works with each of its parts replaced by one of the page', async () => {
    const { page, complaints, field, show, showNew } = await open({ framed: 'yes' })
    const names = await page.evaluate(
      () => (window as unknown as { page: { parts: string[] } }).page.parts,
    )
    await page.evaluate(() => {
      const met = new Set<string>()
      const look = () =>
        document.querySelectorAll('.own').forEach(({ className }) => met.add(className.slice(8)))
      new MutationObserver(look).observe(document, { subtree: true, childList: true })
      Object.assign(window, { met })
      look()
    })
    /** Waits for a part of the page's own, in which the kit's is. */
    const meet = (part: string) =>
      page.locator(`.own-${part} > *`).first().waitFor({ state: 'attached' })
    await meet('Suggestions')
    await page.locator('.oc-composer input[type=file]').setInputFiles({
      ...{ name: 'face.png', mimeType: 'image/png', buffer: Buffer.from(png(30)) },
    })
    await meet('Attachments')
    await page.locator('.oc-attachments').getByRole('button').first().click()
    await show('thinking')
    await meet('Reasoning')
    await page.locator('.oc-begin-edit').click()
    await page.locator('.oc-edit textarea').fill('/show progress')
    await page.locator('.oc-edit button[type=submit]').click()
    await meet('BranchPicker')
    await page.getByText('2 / 2').waitFor()
    await showNew('approval')
    await meet('ApprovalCard')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.locator('.oc-tool[data-state=done][data-tool=send_invitation]').waitFor()
    await showNew('payment')
    await meet('PaymentCard')
    await page.getByRole('button', { name: 'Pay', exact: true }).click()
    await page.getByText('It is paid').first().waitFor()
    await showNew('long')
    await page.locator('.oc-message[data-state=done] >> text=/60/').first().waitFor()
    await page.locator('.oc-messages').evaluate((one) => (one.scrollTop = 0))
    await meet('JumpToEnd')
    await showNew('model-error')
    await meet('ErrorCard')
    expect(complaints.filter((line) => !/status of (402|502)/.test(line))).toEqual([])
    await page.context().setOffline(true)
    await field.fill('Is anybody there?')
    await page.getByRole('button', { name: 'Send' }).click()
    await meet('Waiting')
    await page.getByText('Waits for the network').waitFor()
    const met = await page.evaluate(() => [...(window as unknown as { met: Set<string> }).met])
    expect(met.toSorted()).toEqual(names.toSorted())
    await page.close()
  }, 120_000)

  it('takes each variable, and no reset of a sheet in a layer before it; one in no layer breaks nothing', async () => {
    const { page, complaints, field, show } = await open()
    await field.fill('Show me all.')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.oc-ai hr').waitFor()
    await show('tool-error')
    await page.locator('.oc-tool[data-state=error]').waitFor()
    await show('approval')
    await page.getByRole('button', { name: 'Approve' }).waitFor()
    await page.evaluate(() =>
      document.querySelectorAll('details').forEach((one) => (one.open = true)),
    )
    // What is out of sight is measured, too.
    await page.addStyleTag({ content: '.oc-root * { content-visibility: visible !important }' })
    const before = await look(page)
    const named = await variables()
    expect(named.length).toBeGreaterThan(10)
    const style = await page.addStyleTag({ content: ' ' })
    const use = (text: string, isFirst = false) =>
      style.evaluate(
        (one, [text, isFirst]) => {
          one.textContent = text
          if (isFirst) document.head.prepend(one)
          else document.head.append(one)
        },
        [text, isFirst] as const,
      )
    for (const name of named) {
      const sized = /radius|size|width/.test(name)
      const value = sized ? '23px' : /font|mono/.test(name) ? 'Test Serif' : 'rgb(1, 2, 3)'
      await use(`.oc-root { ${name}: ${value} }`)
      const changed = (await look(page)).filter((line, nth) => line !== before[nth])
      expect([name, changed.some((line) => line.includes(value))]).toEqual([name, true])
    }

    const [tailwind, bootstrap] = await Promise.all([
      sheet('tailwindcss/preflight.css'),
      sheet('bootstrap/dist/css/bootstrap.css'),
    ])
    for (const [text, isFirst] of [
      [`@layer theme, base, components, utilities; @layer base { ${tailwind} }`, true],
      [`@layer theme, base, components, utilities; @layer base { ${tailwind} }`, false],
      [`@layer base { ${bootstrap} }`, false],
    ] as const) {
      await use(text, isFirst)
      expect(differences(before, await look(page))).toEqual([])
    }
    for (const text of [tailwind, bootstrap]) {
      await use(text)
      expect(await cut(page)).toEqual([])
      for (const words of ['send_invitation amina@example.org', 'Waits for you'])
        expect(await page.locator('.oc-messages').innerText()).toContain(words)
      await page.getByRole('button', { name: 'Edit' }).last().click({ trial: true })
    }
    expect(complaints).toEqual([])
    await page.close()
  }, 120_000)
})
