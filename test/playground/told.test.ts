import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { chain, RuntimeError } from '#core'
import { scriptedModel, testApp, type TestAppOptions } from '#core/testing'
import { builtPage } from '../support/built-page.ts'
import playground from '../../plugins/playground/index.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'what the playground tells of the model', (program) => {
  let browser: Browser
  beforeAll(async () => {
    await builtPage()
    browser = await launch(program)
  }, 90_000)
  afterAll(() => browser?.close())

  async function visit({ env, model }: Pick<TestAppOptions, 'env' | 'model'>) {
    const app = await testApp({
      plugins: [playground],
      env: { NODE_ENV: 'development', ...env },
      model,
    })
    onTestFinished(() => app.close())
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    onTestFinished(() => context.close())
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/chat`)
    await page.waitForURL(/#\/chat\/.+/)
    const answers = page.getByRole('article', { name: 'Oracle' })
    const say = async (words: string) => {
      const before = await answers.count()
      await page.getByLabel('Message', { exact: true }).fill(words)
      await page.getByRole('button', { name: 'Send' }).click()
      await answers.nth(before).waitFor()
      await page.getByRole('button', { name: 'Send' }).waitFor()
    }
    return { page, complaints, answers, say }
  }

  it('another model that answers is named as it happens, and after a reload', async () => {
    const down = new RuntimeError('MODEL_OVERLOADED', 'Too many questions.')
    const first = scriptedModel([down, down], { id: 'one/a' })
    const second = scriptedModel(['Here I am.'], { id: 'two/b' })
    const { page, complaints, answers, say } = await visit({ model: chain([first, second]) })
    await say('Hello')
    const told = 'one/a could not answer; two/b answers instead.'
    expect(await page.getByText(told).innerText()).toBe(told)
    expect(await answers.innerText()).toContain('Answered by two/b')
    await page.reload()
    await answers.waitFor()
    expect(await answers.innerText()).toContain('Here I am.')
    await answers.getByText('Answered by two/b').waitFor()
    expect(complaints).toEqual([])
  }, 60_000)

  it('a conversation of which the model reads less keeps every word, and says so', async () => {
    const model = scriptedModel(Array.from({ length: 40 }, () => 'Yes.'))
    const env = { MODEL_CONTEXT_WINDOW: '3000' }
    const { page, complaints, say } = await visit({ model, env })
    const told = page.getByText('From here on the model reads less of this chat.')
    for (let nth = 1; nth <= 15 && (await told.count()) === 0; nth++)
      await say(`Number ${nth}. ${'We talk about stoves. '.repeat(50)}`)
    expect(await told.first().innerText()).toContain('You still see every word.')
    await page.locator('.oc-said', { hasText: 'Number 1.' }).waitFor()
    expect(complaints).toEqual([])
  }, 60_000)
})
