import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, parts } from '#core'
import { call, scriptedModel, testApp, type ScriptedModel } from '#core/testing'
import { builtPage } from '../support/built-page.ts'
import playground from '../../plugins/playground/index.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { largePng, png } from '../support/sample-files.ts'
import { describeWith } from '../support/services.ts'

const camera = definePlugin({
  name: 'camera',
  summary: 'Takes pictures.',
  visibility: 'always',
  tools: {
    shoot: {
      description: 'Takes a picture.',
      effect: 'read',
      input: z.object({}),
      run: () =>
        parts([
          { type: 'text', text: 'Taken.' },
          { type: 'image', mediaType: 'image/png', name: 'roof.png', data: png(30) },
        ]),
    },
  },
})

await describeWith('chromium', 'files in the playground', (program) => {
  let browser: Browser
  const open: { close(): Promise<unknown> }[] = []
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
  }, 90_000)
  afterEach(async () => {
    for (const thing of open.splice(0).reverse()) await thing.close()
  })
  afterAll(() => browser?.close())

  async function visit(...models: ScriptedModel[]) {
    return visitWithRoom('100', models)
  }

  async function visitWithRoom(room: string, models: ScriptedModel[]) {
    const app = await testApp({
      plugins: [playground, camera],
      model: models,
      env: { NODE_ENV: 'development', FILES_PER_USER_MB: room },
    })
    open.push(app)
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    open.push(context)
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/chat`)
    await page.waitForURL(/#\/chat\/.+/)
    return { page, context, complaints }
  }

  const pngFile = (name: string, buffer = png()) => ({ name, mimeType: 'image/png', buffer })
  // The files of what was said are in a list of this name, too.
  const attached = (page: Page) =>
    page.locator('.oc-composer').getByRole('list', { name: 'Attached files' })
  const send = async (page: Page, words: string) => {
    await page.getByLabel('Message', { exact: true }).fill(words)
    await page.getByRole('button', { name: 'Send' }).click()
  }

  it('go along into another answer, and into another version of what was said with them', async () => {
    const model = scriptedModel(['A point.', 'Still a point.', 'A point indeed.'], {
      reads: { image: ['image/*'] },
    })
    const { page, complaints } = await visit(model)
    await page.locator('input[type=file]').setInputFiles(pngFile('map.png'))
    await attached(page).locator('[data-state=done]').waitFor()
    await send(page, 'What is this?')
    await page.locator('.oc-ai').getByText('A point.').waitFor()
    const sent = page.locator('.oc-human img[alt="map.png"]')
    await page.getByRole('button', { name: 'Answer again' }).click()
    await page.locator('.oc-ai').getByText('Still a point.').waitFor()
    await sent.waitFor()
    await page.locator('.oc-human').hover()
    await page.getByRole('button', { name: 'Edit', exact: true }).click()
    await page.locator('.oc-edit textarea').fill('And what is it now?')
    await page.keyboard.press('Enter')
    await page.locator('.oc-ai').getByText('A point indeed.').waitFor()
    await sent.waitFor()
    for (const { messages } of model.requests) expect(JSON.stringify(messages)).toContain('image')
    expect(complaints).toEqual([])
  })

  it('stay with their conversation, while that gets its session and while another one is shown', async () => {
    const model = scriptedModel(['One.', 'Two.', 'A grey point.'], {
      reads: { image: ['image/*'] },
    })
    const { page, complaints } = await visit(model)
    const list = page.getByRole('navigation', { name: 'Chats' })
    const field = page.getByLabel('Message', { exact: true })
    const choose = (file: ReturnType<typeof pngFile>) =>
      page.locator('input[type=file]').setInputFiles(file)
    const areThere = async (count: number) => {
      await expect.poll(() => attached(page).locator('[data-state=done]').count()).toBe(count)
      expect(await attached(page).getByRole('listitem').count()).toBe(count)
    }
    // A conversation that one leaves, and finds again.
    await send(page, 'First')
    await page.locator('.oc-ai .oc-markdown').getByText('One.').waitFor()
    await choose(pngFile('first.png'))
    await areThere(1)
    await list.getByRole('button', { name: 'New chat' }).click()
    await field.waitFor()
    await areThere(0)
    // One whose session is made meanwhile: what is chosen till then goes along into it, also what is still on its way.
    const made = Promise.withResolvers<void>()
    const taken = Promise.withResolvers<void>()
    const isHeld = { sessions: made.promise, files: taken.promise }
    for (const [what, held] of Object.entries(isHeld))
      await page.route(`**/${what}`, async (route) => {
        if (route.request().method() === 'POST') await held
        await route.continue()
      })
    await send(page, 'Second')
    await page.locator('.oc-human').getByText('Second').waitFor()
    await choose(pngFile('second.png', png(7)))
    await attached(page).locator('[data-state=sending]').waitFor()
    made.resolve()
    await page.locator('.oc-ai .oc-markdown').getByText('Two.').waitFor()
    await attached(page).getByText('second.png').waitFor()
    taken.resolve()
    await areThere(1)
    await list.getByRole('button', { name: 'First', exact: true }).click()
    await attached(page).getByText('first.png').waitFor()
    await list.getByRole('button', { name: 'Second', exact: true }).click()
    await attached(page).getByText('second.png').waitFor()
    await send(page, 'What is this?')
    await page.locator('.oc-ai .oc-markdown').getByText('A grey point.').waitFor()
    await areThere(0)
    await page.locator('.oc-human img[alt="second.png"]').waitFor()
    expect(complaints).toEqual([])
  })

  it('go along with a message, chosen, dropped or pasted, and can be taken away', async () => {
    const model = scriptedModel(['A grey point.'], { reads: { image: ['image/*'] } })
    const { page, complaints } = await visit(model)
    const button = page.getByRole('button', { name: 'Attach files' })
    // By keyboard: the button opens the picker.
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      button.focus().then(() => page.keyboard.press('Enter')),
    ])
    await chooser.setFiles([pngFile('one.png'), pngFile('two.png', png(7))])
    await expect.poll(() => attached(page).locator('[data-state=done]').count()).toBe(2)
    await page.evaluate(() => {
      const drop = (type: string, name: string) => {
        const data = new DataTransfer()
        data.items.add(new File(['Rain on Monday.'], name, { type: 'text/plain' }))
        const area = document.querySelector('.oc-composer textarea')
        area?.dispatchEvent(
          type === 'drop'
            ? new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true })
            : new ClipboardEvent(type, { clipboardData: data, bubbles: true, cancelable: true }),
        )
      }
      drop('drop', 'dropped.txt')
      drop('paste', 'pasted.txt')
    })
    await expect.poll(() => attached(page).locator('[data-state=done]').count()).toBe(4)
    await page.getByRole('button', { name: 'Remove two.png' }).click()
    await page.getByRole('button', { name: 'Remove dropped.txt' }).click()
    await expect.poll(() => attached(page).getByRole('listitem').count()).toBe(2)
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, 'composer.png') })
    await send(page, 'What is this?')
    await page.locator('.oc-ai .oc-markdown').getByText('A grey point.').waitFor()
    const asked = model.requests[0]?.messages.findLast(({ role }) => role === 'user')
    expect(asked).toMatchObject({ parts: [{ type: 'image', name: 'one.png' }] })
    expect(asked?.content).toContain('Rain on Monday.')
    // The message shows its picture, now and after a reload.
    for (const _ of [1, 2]) {
      await page.locator('.oc-human img[alt="one.png"]').waitFor()
      await page.getByRole('button', { name: 'Save pasted.txt' }).waitFor()
      await page.reload()
    }
    expect(complaints).toEqual([])
  })

  it('that the server refuses say why, and hold the message back until they are removed', async () => {
    const { page } = await visit(scriptedModel(['Well.']))
    const picker = page.locator('input[type=file]')
    const page1 = { name: 'page.png', mimeType: 'image/png', buffer: Buffer.from('<html><h1>Hi') }
    await picker.setInputFiles([page1, pngFile('large.png', largePng(10 * 1024 * 1024 + 1))])
    await page.getByRole('alert').getByText('10 MiB').waitFor()
    await page
      .getByRole('alert')
      .getByText(/said to be image\/png/)
      .waitFor()
    if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, 'refused.png') })
    await page.getByLabel('Message', { exact: true }).fill('Hello')
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Remove page.png' }).click()
    await page.getByRole('button', { name: 'Remove large.png' }).click()
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.oc-ai .oc-markdown').getByText('Well.').waitFor()
  })

  it('that do not get through are kept, say why, and go once there is a way or room for them', async () => {
    const model = scriptedModel(['Read.'])
    const { page, context } = await visitWithRoom('1', [model])
    const picker = page.locator('input[type=file]')
    const note = (name: string) => ({ name, mimeType: 'text/plain', buffer: Buffer.from('Rain.') })
    const one = (name: string) => attached(page).getByRole('listitem').filter({ hasText: name })
    await context.setOffline(true)
    await picker.setInputFiles(note('offline.txt'))
    const alert = one('offline.txt').getByRole('alert')
    await alert.getByText('There is no network: the file waits here.').waitFor()
    await context.setOffline(false)
    await one('offline.txt').getByRole('button', { name: 'Try again' }).click()
    await one('offline.txt').and(page.locator('[data-state=done]')).waitFor()
    // The connection breaks under way, and another file is one too many for what its owner may keep.
    await page.route('**/files', (route) => route.abort('connectionreset'), { times: 1 })
    await picker.setInputFiles(note('broken.txt'))
    await one('broken.txt').getByRole('alert').waitFor()
    await page.route('**/files', (route) => route.fulfill({ status: 502, body: '<h1>Bad</h1>' }), {
      times: 1,
    })
    await one('broken.txt').getByRole('button', { name: 'Try again' }).click()
    await one('broken.txt').getByRole('alert').getByText('It answered 502.').waitFor()
    await one('broken.txt').getByRole('button', { name: 'Try again' }).click()
    await one('broken.txt').and(page.locator('[data-state=done]')).waitFor()
    await picker.setInputFiles(pngFile('full.png', largePng(1024 * 1024)))
    const full = one('full.png').getByRole('alert')
    await full.getByText('your files may have 1 MiB together').waitFor()
    await full.getByText('Delete conversations with files that you no longer need.').waitFor()
    await page.getByLabel('Message', { exact: true }).fill('Read them')
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
    await page.getByRole('button', { name: 'Remove full.png' }).click()
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.oc-ai .oc-markdown').getByText('Read.').waitFor()
    const asked = model.requests[0]?.messages.findLast(({ role }) => role === 'user')?.content
    expect(asked).toContain('offline.txt')
    expect(asked).toContain('broken.txt')
    expect(asked).not.toContain('full.png')
  })

  it('of tools are shown beside their calls, as they come and after a reload', async () => {
    const model = scriptedModel([call('shoot'), 'There it is.'])
    const { page, complaints } = await visit(model)
    await send(page, 'Take a picture')
    for (const _ of [1, 2]) {
      await page.getByRole('list', { name: 'shoot' }).getByAltText('roof.png').waitFor()
      if (process.env.SHOTS) await page.screenshot({ path: join(process.env.SHOTS, 'tool.png') })
      await page.reload()
    }
    expect(complaints).toEqual([])
  })

  it('the model that was chosen stays with its chat, also after a reload', async () => {
    const two = scriptedModel(['I am two.', 'Still two.'], { id: 'two' })
    const one = scriptedModel(['I am one.'], { id: 'one' })
    const { page } = await visit(one, two)
    const choice = page.getByRole('combobox', { name: 'Model' })
    await expect.poll(() => choice.inputValue()).toBe('one')
    await choice.selectOption('two')
    await send(page, 'Who?')
    await page.locator('.oc-ai .oc-markdown').getByText('I am two.').waitFor()
    await page.reload()
    await expect.poll(() => choice.inputValue()).toBe('two')
    await send(page, 'And now?')
    await page.locator('.oc-ai .oc-markdown').getByText('Still two.').waitFor()
    await page.getByRole('button', { name: 'New chat' }).click()
    await expect.poll(() => choice.inputValue()).toBe('one')
  })
})
