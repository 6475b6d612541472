import type { Browser, Page } from 'playwright-core'
import { launch } from '../../test/support/browser.ts'
import { type KitPage, kitPage } from '../../test/support/kit-page.ts'
import { type LongChat, longChat } from '../../test/support/long-chat.ts'

/** What a conversation of 500 messages of 2 KB may cost. */
export const longBudget = { openMs: 1_000, keystrokeMs: 16, shift: 0.01 }

/** What one page with such a conversation costs. */
export interface LongCost {
  /** From the navigation until the newest messages are painted. */
  readonly openMs: number
  /** What the 95th of 100 keystrokes in the field takes in script, style and layout. */
  readonly keystrokeMs: number
  /** The cumulative layout shift of opening, typing and two older pages. */
  readonly shift: number
}

interface Seen {
  openedAt: number
  shift: number
  keys: number[]
}

/** Notes in the page when its messages are painted, what moves without a person, and what each key takes. */
function watch(): void {
  const seen: Seen = { openedAt: 0, shift: 0, keys: [] }
  Object.assign(window, { seen })
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as (PerformanceEntry & {
      value: number
      hadRecentInput: boolean
    })[])
      if (!entry.hadRecentInput) seen.shift += entry.value
  }).observe({ type: 'layout-shift', buffered: true })
  const look = () => {
    if (document.querySelectorAll('.oc-message').length < 50)
      return void requestAnimationFrame(look)
    // The frame that shows them is over when the next one begins.
    requestAnimationFrame((now) => (seen.openedAt = now))
  }
  requestAnimationFrame(look)
  let begun = 0
  window.addEventListener('keydown', () => (begun = performance.now()), true)
  window.addEventListener('input', () => {
    setTimeout(() => {
      document.body.getBoundingClientRect()
      seen.keys.push(performance.now() - begun)
    })
  })
}

const seenOn = (page: Page) => page.evaluate(() => (window as unknown as { seen: Seen }).seen)

async function cost(
  browser: Browser,
  site: KitPage,
  { app, sessionId, seed }: LongChat,
  { history, slower }: { readonly history?: 'all'; readonly slower: number },
): Promise<LongCost> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
  const devtools = await context.newCDPSession(page)
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: slower })
  await page.addInitScript(watch)
  const more = { seed, session: sessionId, ...(history && { history }) }
  await page.goto(site.address(app.url, app.oracleDid, more))
  await page.waitForFunction(() => (window as unknown as { seen: Seen }).seen.openedAt > 0)
  const { openedAt } = await seenOn(page)
  const field = page.getByLabel('Message', { exact: true })
  await field.focus()
  for (let key = 0; key < 100; key++) await page.keyboard.press(key % 6 === 5 ? 'Space' : 'x')
  await page.waitForFunction(() => (window as unknown as { seen: Seen }).seen.keys.length >= 100)
  for (let shown = 100; shown <= 150; shown += 50) {
    await page.evaluate(() => (document.querySelector('.oc-messages')!.scrollTop = 120))
    await page
      .locator('.oc-message')
      .nth(shown - 1)
      .waitFor({ state: 'attached' })
  }
  const { keys, shift } = await seenOn(page)
  await context.close()
  const keystrokeMs = keys.toSorted((a, b) => a - b)[Math.floor(keys.length * 0.95)] ?? NaN
  return { openMs: openedAt, keystrokeMs, shift }
}

/** Opens the same conversation in several ways, each three times after a first look, and returns the median of each figure. */
export async function longBench(
  executablePath = process.env.TEST_CHROMIUM ?? 'chromium',
): Promise<Record<string, LongCost>> {
  await using site = await kitPage({ minify: true })
  await using chat = await longChat({ id: 'silent', async *stream() {} })
  const browser = await launch(executablePath)
  const ways = {
    'newest 50': { slower: 1 },
    'all 500': { slower: 1, history: 'all' },
    'newest 50, CPU four times slower': { slower: 4 },
  } as const
  try {
    await cost(browser, site, chat, { slower: 1 })
    const costs: Record<string, LongCost> = {}
    for (const [name, way] of Object.entries(ways)) {
      const all: LongCost[] = []
      for (let round = 0; round < 3; round++) all.push(await cost(browser, site, chat, way))
      const middle = (key: keyof LongCost) =>
        all.map((one) => one[key]).toSorted((a, b) => a - b)[1] ?? NaN
      costs[name] = {
        openMs: middle('openMs'),
        keystrokeMs: middle('keystrokeMs'),
        shift: middle('shift'),
      }
    }
    return costs
  } finally {
    await browser.close()
  }
}

if (import.meta.main) console.table(await longBench())
