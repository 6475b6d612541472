import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { expect } from 'vitest'
import { scriptedModel, testApp } from '#core/testing'
import { en } from '../../client/ui/languages/en.ts'
import playground from '../../plugins/playground/index.ts'
import showcase from '../../plugins/showcase/index.ts'
import { builtPage } from './built-page.ts'
import { complaintsOf, launch } from './browser.ts'

/** What stands on the page at the end of a state of `/show`, by the words of a language. */
export const seenAtTheEnd = (
  words: typeof en,
): Readonly<Record<string, readonly [where: string, what: string]>> => ({
  markdown: ['.oc-ai table', ''],
  long: ['.oc-ai .oc-markdown', '60'],
  rtl: ['.oc-ai [dir=auto]', 'العدّاد'],
  hostile: ['.oc-ai .oc-markdown', 'attacker.example'],
  thinking: ['.oc-reasoning summary', words.thought],
  progress: ['.oc-tool[data-state=done] summary', 'read_meters'],
  approval: ['.oc-approval', 'send_invitation'],
  'tool-error': ['.oc-tool[data-state=error] summary', 'break_down'],
  component: ['.oc-tool summary', 'WeatherCard'],
  parallel: ['.oc-tool[data-state=done] summary', 'count_wells'],
  'sub-agent': ['.oc-tool[data-state=done] summary', 'call_surveyor'],
  payment: ['.oc-payment button', words.pay],
  'too-long': ['.oc-error', 'longer than the model reads'],
  'model-error': ['.oc-error', 'did not answer'],
  cut: ['.oc-ending', ''],
  slow: ['.oc-ai .oc-markdown', 'nine seconds'],
  takeover: ['.oc-ai .oc-markdown', 'word 60'],
})

/** What the browser itself notes of a refusal is a line that no page can leave out. */
export const ofThePage = (complaints: readonly string[]): readonly string[] =>
  complaints.filter((line) => !/status of (402|502)/.test(line))

/** A server with the playground and the states of `/show`, and a browser. */
export async function shownStates(program: string, pace: string) {
  await builtPage()
  const browser: Browser = await launch(program)
  const app = await testApp({
    plugins: [playground, showcase],
    model: scriptedModel([]),
    env: { NODE_ENV: 'development', SHOWCASE_PACE: pace, RATE_LIMIT_PER_MINUTE: '100000' },
  })
  const newChat = `${app.url}/playground/#/chat/new`
  return {
    /** A page with a new chat, in a browser of its own; `prepare` is called before anything is loaded. */
    async visit(
      options: BrowserContextOptions = {},
      words = en,
      prepare?: (page: Page) => Promise<unknown>,
    ) {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 800 },
        ...options,
      })
      context.setDefaultTimeout(40_000)
      const page = await context.newPage()
      await prepare?.(page)
      const complaints = complaintsOf(page)
      await page.goto(newChat)
      await page.getByLabel(words.message, { exact: true }).waitFor()
      return { page, complaints }
    },
    /** Has a new chat show a state, by the keyboard alone. */
    async type(page: Page, state: string, words = en) {
      await page.goto(newChat)
      await expect.poll(() => page.locator('.oc-message').count()).toBe(0)
      await page.getByLabel(words.message, { exact: true }).focus()
      await page.keyboard.type(`/show ${state}`)
      await page.keyboard.press('Enter')
      await page.locator('.oc-ai, .oc-payment, .oc-error').first().waitFor()
    },
    /** Closes the pages. */
    async leave() {
      for (const context of browser.contexts()) await context.close()
    },
    async close() {
      await browser.close()
      await app.close()
    },
  }
}
