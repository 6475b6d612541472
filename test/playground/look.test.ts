import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { startServer, type ServerProcess } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'the look of the playground', (program) => {
  let browser: Browser
  let server: ServerProcess
  let folder: string
  let url: string
  beforeAll(async () => {
    await builtPage()
    folder = await mkdtemp(join(tmpdir(), 'look-'))
    server = startServer('server.ts', { DATA_DIR: folder, RATE_LIMIT_PER_MINUTE: '100000' })
    browser = await launch(program)
    url = await server.url
  }, 90_000)
  afterAll(async () => {
    await browser?.close()
    await server?.end()
    await rm(folder, { recursive: true, force: true })
  })

  async function visit(view: string, width = 1280) {
    const context = await browser.newContext({ viewport: { width, height: 800 } })
    onTestFinished(() => context.close())
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${url}/playground/#/${view}`)
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    return { page, complaints }
  }
  const nav = (page: Page) => page.getByRole('navigation', { name: 'Views' })
  /** Goes to a view as the keyboard does. */
  const enter = async (page: Page, name: string) => {
    await nav(page).getByRole('link', { name, exact: true }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
  }
  const say = async (page: Page, words: string) => {
    await page.getByLabel('Message', { exact: true }).fill(words)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  const widthOf = async (page: Page, selector: string) =>
    (await page.locator(selector).boundingBox())?.width ?? 0
  /** The letters of each text as they are drawn, in pixels. */
  const lettersOf = (page: Page, selector: string) =>
    page.locator(selector).evaluateAll((texts) =>
      texts.map((text) => {
        const svg = text.closest('svg')
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1
        return Number.parseFloat(getComputedStyle(text).fontSize) * scale
      }),
    )

  it('has one narrow column of ways to the views; the list of chats folds by Ctrl and B', async () => {
    const { page } = await visit('chat')
    expect(await widthOf(page, '.side')).toBeLessThan(110)
    const chats = page.getByRole('navigation', { name: 'Chats' })
    await chats.waitFor()
    await page.keyboard.press('Control+b')
    await chats.waitFor({ state: 'hidden' })
    await page.keyboard.press('Control+b')
    await chats.waitFor()
  }, 60_000)

  it('has no field whose letters are under 16 px, into which a telephone would zoom, and none that leaves its page', async () => {
    const { page } = await visit('chat', 375)
    const { views } = (await (await fetch(`${url}/views`)).json()) as {
      views: { name: string; within?: string }[]
    }
    const brought = views.filter(({ within }) => within === undefined).map(({ name }) => name)
    let fields = 0
    for (const view of ['chat', 'runs', 'capabilities', 'wire', 'api', ...brought]) {
      await page.goto(`${url}/playground/#/${view}`)
      await page.locator('main h1:visible, main .oc-composer textarea:visible').first().waitFor()
      await page.getByText('Asking…').waitFor({ state: 'detached' })
      const small = await page
        .locator('input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select')
        .evaluateAll((all) => ({
          count: all.length,
          small: all
            .filter((one) => parseFloat(getComputedStyle(one).fontSize) < 16)
            .map((one) => one.outerHTML.slice(0, 120)),
          outside: all
            .filter((one) => one.checkVisibility())
            .filter((one) => {
              const { left, right } = one.getBoundingClientRect()
              return left < 0 || right > innerWidth
            })
            .map((one) => one.outerHTML.slice(0, 120)),
        }))
      fields = Math.max(fields, small.count)
      expect([view, ...small.small]).toEqual([view])
      expect([view, ...small.outside]).toEqual([view])
    }
    expect(fields).toBeGreaterThan(10)
  }, 120_000)

  it('has a bar with four views and More at 375 px, and no letter under 11 px', async () => {
    const { page } = await visit('wire', 375)
    const links = nav(page).getByRole('link')
    await expect.poll(() => links.count()).toBe(4)
    for (const size of await lettersOf(page, '.side nav span'))
      expect(size).toBeGreaterThanOrEqual(11)
    const more = nav(page).getByRole('button', { name: 'More' })
    await more.focus()
    await page.keyboard.press('Enter')
    await nav(page).getByRole('link', { name: 'API' }).waitFor()
    await page.keyboard.press('Escape')
    await expect.poll(() => links.count()).toBe(4)
  }, 60_000)

  it.each([1280, 375])(
    'draws labels of 11 px and more, and names its axes, at %i px',
    async (width) => {
      const { page, complaints } = await visit('sampling', width)
      await page.locator('svg .tick').first().waitFor()
      expect(await page.locator('svg .axis').allTextContents()).toEqual(['Precision', 'Households'])
      const ticks = await page.locator('svg .tick.middle').allTextContents()
      expect(ticks).toEqual(['0.05', '0.1', '0.15', '0.2'])
      await page.getByRole('button', { name: 'Add strata' }).click()
      await page.getByRole('button', { name: 'Work it out and keep it' }).click()
      const design = page.getByRole('region', { name: 'The design', exact: true })
      // One number for one design: what the strata need together, and what the plot leaves out is said.
      await expect.poll(() => design.locator('dd.strong').textContent()).toBe('272')
      await page.locator('figcaption').getByText('112 without strata').waitFor()
      const results = design.locator('output')
      const shown = (await results.allTextContents()).join(' ')
      expect(shown).toContain('1.96')
      expect(shown).not.toMatch(/\d\.\d{7,}/)
      expect(await results.first().getAttribute('title')).toMatch(/1\.9599639/)

      await page.goto(`${url}/playground/#/registry`)
      const form = page.getByRole('form', { name: 'Create an entity' })
      await form.getByLabel('Name', { exact: true }).fill(`Trust ${width}`)
      await page.getByRole('button', { name: 'Create', exact: true }).click()
      await page.locator('.graph text').first().waitFor()
      const sizes = await lettersOf(page, '.graph text')
      expect(sizes.length).toBeGreaterThan(4)
      for (const size of sizes) expect(size).toBeGreaterThanOrEqual(10.95)
      // An edge's name and the names of entities do not lie on each other.
      const boxes = await page.locator('.graph text').evaluateAll((texts) =>
        texts.map((text) => {
          const { left, right, top, bottom } = text.getBoundingClientRect()
          return { left, right, top: top + 2, bottom: bottom - 2 }
        }),
      )
      for (const [nth, a] of boxes.entries())
        for (const b of boxes.slice(nth + 1))
          expect(a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom).toBe(
            false,
          )
      expect(
        await page.locator('select').filter({ hasText: 'Organisation' }).first().innerText(),
      ).toMatch(/Organisation, version 1/)
      const tab = page.getByRole('tab', { name: 'Claims' })
      await tab.focus()
      await page.keyboard.press('ArrowRight')
      await page.getByText('No claim about it has become a credential.').waitFor()
      await page.keyboard.press('ArrowRight')
      await page.getByRole('tabpanel').getByText('Version 1', { exact: true }).waitFor()
      expect(complaints).toEqual([])
    },
    120_000,
  )

  it('says day and time, shows tokens once, and has no loud button for a load', async () => {
    const { page, complaints } = await visit('chat')
    await say(page, 'What can you do?')
    await page.getByText('I am the demonstration model').first().waitFor()
    await page.getByRole('button', { name: 'Send' }).waitFor()
    await enter(page, 'Wire')
    const times = await page.locator('.traffic time').allTextContents()
    for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}$/)
    const tokens = page.locator('.traffic .title').filter({ hasText: /^message/ })
    await expect.poll(() => tokens.count()).toBeGreaterThan(0)
    // The newest row stands first, and a pause in the answer begins another row.
    const isToken = page.locator('.title').filter({ hasText: /^message/ })
    const rows = page.locator('.traffic li').filter({ has: isToken })
    const said = async () => (await rows.locator('.about').allTextContents()).reverse().join('')
    await expect.poll(said).toContain('I am the demonstration model')
    expect(await tokens.count()).toBeLessThan(4)
    await enter(page, 'Capabilities')
    const load = page.getByRole('button', { name: /^Load / })
    await load.first().waitFor()
    for (const one of await load.all()) expect(await one.getAttribute('class')).toContain('quiet')
    expect(complaints).toEqual([])
  }, 60_000)

  it('keeps a draft, a call, inputs and a design while another view is shown', async () => {
    const { page, complaints } = await visit('phone')
    await page.getByRole('button', { name: /^Dial/ }).click()
    await page.getByLabel('Reply').fill('2')
    await enter(page, 'Sampling')
    await page.getByLabel('Population').fill('4000')
    await page.getByRole('button', { name: 'Work it out and keep it' }).click()
    const design = page.getByRole('region', { name: 'The design', exact: true })
    await design.waitFor()
    const drawn = await design.locator('dd.strong').textContent()
    await enter(page, 'Chat')
    await page.getByLabel('Message', { exact: true }).fill('Half a sent')
    await enter(page, 'Phone')
    expect(await page.getByLabel('Reply').inputValue()).toBe('2')
    await enter(page, 'Sampling')
    expect(await page.getByLabel('Population').inputValue()).toBe('4000')
    expect(await design.locator('dd.strong').textContent()).toBe(drawn)
    await enter(page, 'Chat')
    expect(await page.locator('.oc-composer textarea').inputValue()).toBe('Half a sent')
    expect(complaints).toEqual([])
  }, 60_000)

  it('forks a chat from a step of a run, with what was loaded then', async () => {
    const { page, complaints } = await visit('chat')
    await say(page, 'What can you do?')
    await page.getByRole('button', { name: 'Send' }).waitFor()
    await page.waitForURL(/#\/chat\/(?!new)/)
    const before = page.url()
    await enter(page, 'Runs')
    const steps = page.getByRole('list', { name: 'Steps' }).getByRole('listitem')
    await steps.last().locator('summary').click()
    await steps.last().getByRole('button', { name: 'What was loaded and kept' }).click()
    await expect
      .poll(() => page.getByRole('region', { name: /^State at step/ }).innerText())
      .toContain('loadedPlugins')
    // What a call of the model was sent, in parts with bytes and tokens.
    const asked = steps.filter({ hasText: /^model/ }).first()
    await asked.locator('summary').first().click()
    const sent = asked.getByRole('table', { name: 'Sent to the model' })
    for (const part of ['kernel', 'catalogue', 'history'])
      expect(await sent.getByRole('row', { name: part }).innerText()).toMatch(
        /^\S+\s+[\d,]{2,}\s+[\d,]+$/,
      )
    await steps.last().getByRole('button', { name: 'Fork from here' }).click()
    await page.waitForURL((now) => /#\/chat\//.test(now.href) && now.href !== before)
    await page.getByRole('article', { name: 'You' }).getByText('What can you do?').waitFor()
    await say(page, 'Tell me a long story.')
    await expect.poll(() => page.getByRole('article', { name: 'You' }).count()).toBe(2)
    expect(complaints).toEqual([])
  }, 90_000)

  it('edits what was said and asks again, each as a version of the same chat, which a reload keeps', async () => {
    const { page, complaints } = await visit('chat')
    const mine = page.getByRole('article', { name: 'You' })
    await say(page, 'What can you do?')
    await page.getByRole('button', { name: 'Send' }).waitFor()
    await page.waitForURL(/#\/chat\/(?!new)/)
    await mine.getByRole('button', { name: 'Edit' }).click()
    await mine.getByRole('textbox').fill('Who are you?')
    await mine.locator('.oc-edit button[type=submit]').click()
    await mine.getByText('Who are you?').waitFor()
    await mine.getByText('2 / 2').waitFor()
    await page.reload()
    await mine.getByText('2 / 2').waitFor()
    await mine.getByRole('button', { name: 'Earlier version' }).click()
    await mine.getByText('What can you do?').waitFor()
    await mine.getByText('1 / 2').waitFor()
    const chats = page.getByRole('navigation', { name: 'Chats' }).locator('.oc-thread-name')
    await expect.poll(() => chats.count()).toBe(1)
    await page
      .getByRole('article', { name: 'Oracle' })
      .last()
      .getByRole('button', { name: 'Answer again' })
      .click()
    await mine.getByText('3 / 3').waitFor()
    expect(complaints).toEqual([])
  }, 90_000)

  it('stays at the view that a person has opened while the list of chats was still to come', async () => {
    const { page, complaints } = await visit('wire')
    const held = Promise.withResolvers<void>()
    await page.route('**/sessions?*', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.goto(`${url}/playground/`)
    await page.reload()
    await page.locator('.oc-threads[data-state=loading]').waitFor()
    await enter(page, 'Wire')
    held.resolve()
    await page.locator('.oc-threads[data-state=ready]').waitFor({ state: 'attached' })
    await page.locator('.traffic .title').getByText('/sessions?').first().waitFor()
    expect(new URL(page.url()).hash).toBe('#/wire')
    await enter(page, 'Chat')
    await page.waitForURL(/#\/chat\/new/)
    expect(complaints).toEqual([])
  }, 60_000)
})
