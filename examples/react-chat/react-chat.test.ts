import { once } from 'node:events'
import { createServer } from 'node:http'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import { lookedThrough, sentence } from '../../test/support/nothing-kept.ts'
import payments from '../../plugins/payments/index.ts'
import { complaintsOf, headersOf, launch } from '../../test/support/browser.ts'
import { startServer } from '../../test/support/process.ts'
import { describeWith } from '../../test/support/services.ts'
import { unquote } from '../../test/support/models.ts'

const call = (name: string, args: unknown = {}) => ({ call: name, args })

const reading = { city: 'Lusaka', temp_c: 24, conditions: 'clear sky' }
const weather = definePlugin({
  name: 'forecast',
  summary: 'Knows the weather.',
  visibility: 'always',
  tools: {
    look_outside: {
      description: 'Looks outside.',
      effect: 'read',
      input: z.object({}),
      run: (_, { emit }) => (emit.component('WeatherCard', reading), reading),
    },
  },
})

it.each([
  ['main.tsx', 'forty', 40],
  ['hooks.tsx', 'sixty', 60],
])('%s is %s lines of its own', (file, _, most) => {
  const lines = readFileSync(join(import.meta.dirname, file), 'utf8').split('\n')
  const own = lines.slice(lines.findLastIndex((line) => /^import/.test(line)) + 1)
  expect(own.filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(most)
})

await describeWith('chromium', 'the React example', (executablePath) => {
  const folder = mkdtempSync(join(tmpdir(), 'react-chat-'))
  let browser: Browser
  let site: string
  const types: Record<string, string> = {
    '.html': 'text/html',
    '.js': 'text/javascript',
    '.css': 'text/css',
  }
  const server = createServer(({ url }, res) => {
    const { pathname } = new URL(url!, 'http://localhost')
    const file = pathname === '/' ? '/index.html' : pathname
    res.setHeader('content-type', types[extname(file)] ?? 'text/plain')
    res.end(readFileSync(join(folder, file)))
  })

  beforeAll(async () => {
    await build({
      root: import.meta.dirname,
      logLevel: 'silent',
      build: { outDir: folder, emptyOutDir: true },
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    site = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    browser = await launch(executablePath)
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function open(oracle: string): Promise<{ page: Page; complaints: string[] }> {
    const page = await (await browser.newContext()).newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${site}/hooks.html?oracle=${oracle}`)
    return { page, complaints }
  }
  const say = async (page: Page, words: string) => {
    await page.getByLabel('Your message').fill(words)
    await page.getByRole('button', { name: 'Send' }).click()
  }

  it('shows a component, runs a tool and an action of the page, and keeps it all over a reload', async () => {
    const model = scriptedModel([
      [call('look_outside'), call('look_at_the_clock', { style: 'short' })],
      call('draw_bar', { label: 'Rain', percent: 40 }),
      'It is dry.',
    ])
    await using app = await testApp({ plugins: [weather], model })
    const { page, complaints } = await open(app.url)
    await say(page, 'How is it outside?')
    await page.getByText('It is dry.').waitFor()
    await page.getByText('Lusaka: 24 °C, clear sky').waitFor()
    expect(await page.getByLabel('Rain').getAttribute('value')).toBe('40')
    const told = model.requests.at(-1)!.messages.filter(({ role }) => role === 'tool')
    expect(told.map(({ content }) => unquote(content))).toEqual([
      JSON.stringify(reading),
      expect.stringMatching(/^\d+:\d\d [AP]M$/),
      'The user sees it.',
    ])
    await page.reload()
    await page.getByText('It is dry.').waitFor()
    expect(await page.getByText('Lusaka: 24 °C').count()).toBe(1)
    expect(await page.getByLabel('Rain').count()).toBe(1)
    expect(complaints).toEqual([])
  })

  it('does the same as the kit’s chat', async () => {
    const model = scriptedModel([
      [call('look_outside'), call('look_at_the_clock')],
      call('draw_bar', { label: 'Rain', percent: 40 }),
      'It is dry.',
    ])
    await using app = await testApp({ plugins: [weather], model })
    const page = await (await browser.newContext()).newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${site}/?oracle=${app.url}`)
    await page.getByLabel('Message', { exact: true }).fill('How is it outside?')
    await page.keyboard.press('Enter')
    await page.locator('.oc-ai').getByText('It is dry.').waitFor()
    await page.getByText('Lusaka: 24 °C, clear sky').waitFor()
    expect(await page.getByLabel('Rain').getAttribute('value')).toBe('40')
    await page.locator('.oc-tool[data-tool=look_at_the_clock][data-state=done]').waitFor()
    expect(complaints).toEqual([])
  })

  it('calls the oracle in the session of the chat, where the oracle takes calls', async () => {
    const caller = await chromium.launch({
      executablePath: executablePath.includes('/') ? executablePath : `/usr/bin/${executablePath}`,
      args: [
        ...['--no-sandbox', '--disable-gpu', '--allow-loopback-in-peer-connection'],
        ...['--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream'],
      ],
    })
    onTestFinished(() => caller.close())
    const env = { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' }
    await using app = await testApp({ plugins: [calls], model: scriptedModel(['Hello.']), env })
    const page = await caller.newPage()
    await page.goto(`${site}/hooks.html?oracle=${app.url}`)
    await page.getByRole('button', { name: 'Call' }).click()
    const call = page.getByRole('region', { name: 'Call' })
    await call.getByText('listening').waitFor()
    // What is typed in the chat meanwhile is told in the call, too.
    await say(page, 'Good morning')
    await call.getByText('agent: Hello.').waitFor()
    await call.getByRole('button', { name: 'Hang up' }).click()
    await page.getByRole('button', { name: 'Call' }).waitFor()
  }, 120_000)

  it('has no call button where the oracle takes no calls', async () => {
    await using app = await testApp({ plugins: [], model: scriptedModel([]) })
    const { page, complaints } = await open(app.url)
    await page.getByLabel('Your message').waitFor()
    expect(await page.getByRole('button', { name: 'Call' }).count()).toBe(0)
    expect(complaints).toEqual([])
  })

  it('says that nobody answers, and goes on by itself once there is an oracle', async () => {
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const { port } = free.address() as AddressInfo
    await new Promise((resolve) => free.close(resolve))
    const page = await (await browser.newContext()).newPage()
    page.setDefaultTimeout(60_000)
    const at = `http://127.0.0.1:${port}`
    await page.goto(`${site}/?oracle=${at}`)
    await page.getByRole('status').getByText(`No oracle answers at ${at} yet.`).waitFor()
    expect(await page.getByLabel('Message').count()).toBe(0)
    const late = startServer('server.ts', { PORT: String(port), DATA_DIR: ':memory:' })
    onTestFinished(() => void late.end())
    await page.getByLabel('Message', { exact: true }).fill('What can you do?')
    await page.keyboard.press('Enter')
    await page.locator('.oc-ai').getByText('I am the demonstration model').waitFor()
    // What the page waited for is nothing that a screen reader should go on hearing of.
    expect(await page.locator('main').getAttribute('role')).toBeNull()
  }, 120_000)

  it('is there by one command, which starts the server and has the browser open the page', async () => {
    const opened = join(folder, 'opened')
    const opener = join(folder, 'browser.js')
    writeFileSync(
      opener,
      `require('node:fs').writeFileSync(${JSON.stringify(opened)}, process.argv.at(-1))`,
    )
    const started = startServer('scripts/example-react.ts', {
      DATA_DIR: ':memory:',
      BROWSER: opener,
    })
    onTestFinished(() => void started.end())
    const oracle = await started.url
    await expect.poll(() => existsSync(opened) && readFileSync(opened, 'utf8')).toBeTruthy()
    const address = readFileSync(opened, 'utf8')
    expect(new URL(address).searchParams.get('oracle')).toBe(oracle)
    const page = await (await browser.newContext()).newPage()
    page.setDefaultTimeout(60_000)
    const complaints = complaintsOf(page)
    await page.goto(address)
    await page.getByLabel('Message', { exact: true }).fill('What can you do?')
    await page.keyboard.press('Enter')
    await page.locator('.oc-ai').getByText('I am the demonstration model').waitFor()
    expect(complaints).toEqual([])
    expect(await started.end('SIGINT')).toBe(0)
  }, 120_000)

  it('says what is to be paid', async () => {
    const paywall = definePlugin({
      name: 'paywall',
      summary: 'Wants to be paid.',
      visibility: 'always',
      middleware: {
        turn() {
          throw new RuntimeError('PAYMENT_REQUIRED', 'Pay.', { details: { claims: ['c-1'] } })
        },
      },
    })
    await using app = await testApp({ plugins: [paywall], model: scriptedModel([]) })
    const { page } = await open(app.url)
    await say(page, 'Hello')
    await page.getByText('To be paid first: c-1').waitFor()
  })

  it.each([
    ['usePayments().pay', ''],
    ['useContractOracle().payClaim', '&pay=claim'],
  ])(
    'pays a 402 by %s, and the message that was refused is answered',
    async (_, way) => {
      const env = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }
      const model = scriptedModel(['The first.', 'The second.', 'The third.'])
      await using app = await testApp({
        plugins: [payments, lookedThrough(() => app.log)],
        model,
        env: { ...env, LOG_LEVEL: 'trace' },
      })
      const { page, complaints } = await open(app.url + way)
      await say(page, `One: ${sentence}`)
      await page.getByText('The first.').waitFor()
      await say(page, `Two: ${sentence}`)
      await page.getByText('The second.').waitFor()
      await say(page, `Three: ${sentence}`)
      const asked = page.getByText('To be paid first:')
      const [claim = ''] = /[\da-f-]{36}/.exec((await asked.textContent()) ?? '') ?? []
      const settled = page.waitForResponse((one) => one.url().endsWith('/payments/settle'))
      await page.getByRole('button', { name: 'Pay' }).click()
      const answer = await settled
      expect(await answer.json()).toEqual({ status: 'settled', paid: [claim], balance: '0' })
      await page.getByText('The third.').waitFor()
      expect(await page.getByText('Three').count()).toBe(1)
      expect(await asked.count()).toBe(0)
      // The ledger has what was paid, and no more.
      const headers = await headersOf(answer.request())
      const account = await fetch(`${app.url}/payments/development/account`, { headers })
      expect(await account.json()).toMatchObject({ balance: String(1_000_000_000 - 10_000) })
      expect(complaints.filter((line) => !line.includes('402'))).toEqual([])
    },
    60_000,
  )
})
