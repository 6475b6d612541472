import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { extname, join } from 'node:path'
import type { Browser } from 'playwright-core'
import { build } from 'vite'
import type { Model } from '#core'
import { testApp } from '#core/testing'
import { launch } from '../../test/support/browser.ts'

/** The most commits of React, and the most main-thread time as a multiple of the baseline's. */
export const streamBudget = { commits: 210, timeRatio: 1.1 }

const pages = ['library', 'baseline'] as const
type PageName = (typeof pages)[number]

/** The cost of one page for one stream. */
export interface StreamCost {
  readonly commits: number
  /** The CPU time of the main thread during the stream, in milliseconds. */
  readonly mainThreadMs: number
  readonly seconds: number
}

/** The costs of both pages, and the ratio of their main-thread times. */
export interface StreamBench {
  readonly library: StreamCost
  readonly baseline: StreamCost
  readonly timeRatio: number
}

interface Measured {
  commits: number
  isReady: boolean
  isDone: boolean
  text: string
  start(): void
}

/** Streams the same tokens to the library's page and to the plain page alternately, and returns the cheapest round of each. */
export async function streamBench({
  tokens = 2000,
  perSecond = 200,
  rounds = 3,
  only = pages as readonly PageName[],
  executablePath = process.env.TEST_CHROMIUM ?? 'chromium',
} = {}): Promise<StreamBench> {
  await using site = await builtSite()
  const browser = await launch(executablePath)
  try {
    const costs: Record<PageName, StreamCost[]> = { library: [], baseline: [] }
    for (let round = 0; round < rounds; round++)
      // The pages alternate in who comes first.
      for (const page of round % 2 ? only.toReversed() : only)
        costs[page].push(await streamOnce(browser, site.url, page, tokens, perSecond))
    const library = least(costs.library)
    const baseline = least(costs.baseline)
    const timeRatio = library.mainThreadMs / baseline.mainThreadMs
    return { library, baseline, timeRatio }
  } finally {
    await browser.close()
  }
}

/** A model that yields the words that are due by the clock, so that late timers do not slow the stream down. */
function pacedModel(words: readonly string[], perSecond: number): Model {
  return {
    id: 'paced',
    async *stream({ signal }) {
      const begun = performance.now()
      for (let said = 0; said < words.length;) {
        const due = Math.ceil(((performance.now() - begun) / 1000) * perSecond)
        for (const word of words.slice(said, due)) yield { type: 'text', text: word }
        said = Math.max(said, due)
        await sleep(1000 / perSecond, undefined, { signal })
      }
    },
  }
}

async function streamOnce(
  browser: Browser,
  site: string,
  name: PageName,
  tokens: number,
  perSecond: number,
): Promise<StreamCost> {
  const text = Array.from({ length: tokens }, (_, i) => `word${i} `)
  const model = pacedModel(text, perSecond)
  await using app = await testApp({ plugins: [], model })
  const context = await browser.newContext()
  const page = await context.newPage()
  const seed = randomBytes(32).toString('base64')
  // The session must belong to the page's user, so the page begins it.
  await page.goto(
    `${site}/?${new URLSearchParams({ page: 'none', server: app.url, session: '-', seed })}`,
  )
  await page.waitForFunction(() => 'begin' in window)
  const session = await page.evaluate(() =>
    (window as unknown as { begin(): Promise<string> }).begin(),
  )
  const query = new URLSearchParams({ page: name, server: app.url, session, seed })
  await page.goto(`${site}/?${query}`)
  await page.waitForFunction(() => (window as unknown as { measured: Measured }).measured?.isReady)
  const devtools = await context.newCDPSession(page)
  // threadTicks counts CPU time, so that other work of the machine does not count.
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' })
  const taskSeconds = async () => {
    const { metrics } = await devtools.send('Performance.getMetrics')
    return metrics.find((metric) => metric.name === 'TaskDuration')!.value
  }
  const before = await taskSeconds()
  const begun = performance.now()
  const commitsBefore = await page.evaluate(() => {
    const { measured } = window as unknown as { measured: Measured }
    const { commits } = measured
    measured.start()
    return commits
  })
  // The bench polls seldom, because each poll costs main-thread time too.
  await page.waitForFunction(
    () => (window as unknown as { measured: Measured }).measured.isDone,
    undefined,
    { polling: 500, timeout: 120_000 },
  )
  const after = await taskSeconds()
  const { commits, text: shown } = await page.evaluate(() => ({
    ...(window as unknown as { measured: Measured }).measured,
    start: undefined,
  }))
  if (shown !== text.join('')) throw new Error(`The ${name} page shows another text.`)
  await context.close()
  return {
    commits: commits - commitsBefore,
    mainThreadMs: (after - before) * 1000,
    seconds: (performance.now() - begun) / 1000,
  }
}

async function builtSite(): Promise<AsyncDisposable & { url: string }> {
  const outDir = await mkdtemp(join(tmpdir(), 'oracle-bench-'))
  await build({
    configFile: false,
    logLevel: 'silent',
    root: join(import.meta.dirname, 'page'),
    resolve: { conditions: ['oracle-runtime-source', 'module', 'browser'] },
    build: { outDir, emptyOutDir: true, target: 'es2022' },
  })
  const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' }
  const server = createServer(async ({ url = '/' }, res) => {
    const { pathname } = new URL(url, 'http://localhost')
    const file = pathname === '/' ? '/index.html' : pathname
    const body = await readFile(join(outDir, file)).catch(() => undefined)
    res.writeHead(body ? 200 : 404, { 'content-type': types[extname(file)] ?? 'text/plain' })
    res.end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await rm(outDir, { recursive: true, force: true })
    },
  }
}

/** The cheapest of some rounds, because noise only adds to the cost. */
function least(costs: readonly StreamCost[]): StreamCost {
  const none = { commits: NaN, mainThreadMs: NaN, seconds: NaN }
  return costs.toSorted((a, b) => a.mainThreadMs - b.mainThreadMs)[0] ?? none
}

if (import.meta.main) {
  const { library, baseline, timeRatio } = await streamBench()
  console.table({ library, baseline })
  console.log(`main-thread time: ${timeRatio.toFixed(2)} times the baseline's`)
}
