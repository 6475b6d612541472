import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync } from 'node:zlib'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Jobs, type PluginSessions, type Turns } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import reminders from '../../examples/reminders/reminders.ts'
import { builtPage } from '../support/built-page.ts'
import { complaintsOf, launch } from '../support/browser.ts'
import { fakeOpenMeteo } from '../support/fake-open-meteo.ts'
import { root, startServer, type ServerProcess } from '../support/process.ts'
import { describeWith } from '../support/services.ts'

interface LayoutShift {
  readonly value: number
  readonly hadRecentInput: boolean
}

const views = [
  'chat',
  'runs',
  'capabilities',
  'wire',
  'phone',
  'sampling',
  'registry',
  'ledger',
  'api',
]

await describeWith('chromium', 'the playground in Chromium', (program) => {
  let browser: Browser
  let server: ServerProcess
  let weather: Awaited<ReturnType<typeof fakeOpenMeteo>>
  let dataDir: string
  let url: string
  const open: { close(): Promise<unknown> }[] = []

  beforeAll(async () => {
    weather = await fakeOpenMeteo()
    await builtPage()
    dataDir = await mkdtemp(join(tmpdir(), 'playground-'))
    server = startServer('server.ts', {
      DATA_DIR: dataDir,
      RATE_LIMIT_PER_MINUTE: '100000',
      TURNS_AT_ONCE: '1000',
      TURNS_PER_DAY: '100000',
      SOCKETS_PER_DID: '1000',
      ...weather.env,
    })
    browser = await launch(program)
    url = await server.url
  }, 90_000)
  afterEach(async () => {
    for (const thing of open.splice(0)) await thing.close()
  })
  afterAll(async () => {
    await browser?.close()
    await server?.end()
    await weather?.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  /** A visitor with a browser of their own, and what the page complained about. */
  async function visit(view = '', options: BrowserContextOptions = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
    open.push(context)
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${url}/playground/#/${view}`)
    await page.getByRole('navigation', { name: 'Views' }).waitFor()
    return { page, complaints, context }
  }

  const say = async (page: Page, message: string) => {
    await page.getByLabel('Message', { exact: true }).fill(message)
    await page.getByRole('button', { name: 'Send' }).click()
  }
  const ready = (page: Page) => page.getByRole('button', { name: 'Send' }).waitFor()
  const show = (page: Page, view: string) =>
    page.getByRole('navigation', { name: 'Views' }).getByRole('link', { name: view }).click()

  it('is what the server’s last line leads to, and asks nobody else for anything', async () => {
    await expect.poll(() => server.output()).toContain(`Open ${url}/playground`)
    const asked: string[] = []
    const { page, complaints } = await visit()
    page.on('request', (request) => asked.push(request.url()))
    await page.reload()
    await page.getByText('What would you like to know?').waitFor()
    expect(asked.filter((one) => !one.startsWith(url) && !one.startsWith('ws'))).toEqual([])
    expect(complaints).toEqual([])
  })

  it('offers the chats of its user for their runs after a reload', async () => {
    const { page, complaints } = await visit('chat')
    await ready(page)
    await say(page, 'Hello, runs')
    await page.getByRole('article', { name: 'Oracle' }).first().waitFor()
    await ready(page)
    await show(page, 'Runs')
    await page.getByRole('heading', { name: 'Step by step' }).waitFor()
    const runs = page.getByRole('region', { name: 'Runs of this chat' }).getByRole('listitem')
    expect(await runs.count()).toBe(1)
    await show(page, 'Chat')
    await say(page, 'Hello, once more')
    await page.getByRole('article', { name: 'Oracle' }).nth(1).waitFor()
    await ready(page)
    await show(page, 'Runs')
    await expect.poll(() => runs.count(), { timeout: 20_000 }).toBe(2)
    await page.reload()
    await page.getByRole('main').getByRole('link', { name: 'Hello, runs' }).click()
    await page.getByRole('heading', { name: 'Step by step' }).waitFor()
    await page.getByRole('link', { name: 'Other chats' }).click()
    await page.getByRole('main').getByRole('link', { name: 'Hello, runs' }).waitFor()
    expect(complaints).toEqual([])
  })

  it('opens at every name of this machine', async () => {
    const { page, complaints } = await visit()
    await page.goto(`${url.replace('127.0.0.1', 'localhost')}/playground/#/capabilities`)
    await page.waitForURL(`${url}/playground/#/capabilities`)
    await page.getByRole('article', { name: 'weather' }).waitFor()
    expect(complaints).toEqual([])
  })

  it('opens at an address that was cut within a letter', async () => {
    const { page, complaints } = await visit('chat/%E0%A4%A')
    await page.getByRole('alert').waitFor()
    await page.getByRole('button', { name: 'New chat' }).click()
    await page.getByText('What would you like to know?').waitFor()
    expect(complaints.filter((one) => !one.includes('Failed to load resource'))).toEqual([])
  })

  it('is at most 110 KB of script and style for a chat, compressed, and 15 KB for each other view', async () => {
    const { page } = await visit('chat')
    const assets = join(root, 'plugins/playground/built')
    const known = new Set<string>()
    /** The bytes of scripts and styles that the page has fetched since it was asked last. */
    const fetched = async () => {
      const all = await page.evaluate(() =>
        performance
          .getEntriesByType('resource')
          .map(({ name }) => new URL(name).pathname)
          .filter((path) => /^\/playground\/.*\.(js|css)$/.test(path)),
      )
      const files = all.filter((path) => !known.has(path))
      for (const path of files) known.add(path)
      const sizes = files.map(async (path) => {
        const source = await readFile(join(assets, path.replace('/playground/', '')))
        return brotliCompressSync(source).length
      })
      return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0)
    }
    await page.getByLabel('Message', { exact: true }).fill('Hello')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('article', { name: 'Oracle' }).first().waitFor()
    const chat = await fetched()
    expect(chat).toBeGreaterThan(60_000)
    expect(chat).toBeLessThan(110 * 1024)
    const views = await page
      .getByRole('navigation', { name: 'Views' })
      .getByRole('link')
      .allInnerTexts()
    expect(views.length).toBeGreaterThan(7)
    for (const view of views.slice(1)) {
      await show(page, view)
      await page.getByRole('heading', { level: 1, name: view }).waitFor()
      await page.getByText('Asking…').waitFor({ state: 'detached' })
      expect(await fetched(), view).toBeLessThan(15 * 1024)
    }
  })

  it('rings a bell for what a plugin tells, which opens its chat, and shows words that a plugin caused', async () => {
    const { default: playground } = await import('../../plugins/playground/index.ts')
    const opened: {
      turns?: Turns
      sessions?: PluginSessions
      jobs?: Jobs<{ fail: z.ZodObject }>
    } = {}
    const helper = definePlugin({
      name: 'helper',
      summary: 'Tells users of things.',
      uses: [playground],
      jobs: { fail: { input: z.object({}), attempts: 1, run: (_, { job }) => job.giveUp('No.') } },
      setup({ turns, sessions, jobs }) {
        opened.turns = turns
        opened.sessions = sessions
        opened.jobs = jobs
        return undefined
      },
    })
    const app = await testApp({
      plugins: [playground, helper],
      model: scriptedModel(['Your tea is ready.', 'Good morning.']),
      env: { NODE_ENV: 'development' },
    })
    open.push(app)
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    open.push(context)
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    // The page tells the server who its user is when it asks for that user's rights.
    const granting = page.waitForRequest(`${app.url}/grants`)
    await page.goto(`${app.url}/playground/#/chat`)
    const user = z.object({ did: z.string() }).parse((await granting).postDataJSON())
    const { sessionId: session } = await opened.sessions!.ensure({ user })
    await page.goto(`${app.url}/playground/#/chat/${session}`)
    const bell = page.getByRole('button', { name: /^Notices/ })
    await bell.waitFor()
    // A turn that a plugin begins in the open chat is shown, though this page asked for nothing.
    for await (const _ of opened.turns!.start({ user, session, message: 'Tea?' }));
    // The page also tells a screen reader of the words, in an element that nobody sees.
    await page.locator('.oc-ai .oc-markdown').getByText('Your tea is ready.').waitFor()
    // A component that the page does not know is shown as its name, with what it was given.
    const component = { name: 'pump-dial', args: { litres: 40 } }
    await opened.sessions!.say({ user, session, component, notify: false })
    await page.locator('[data-tool=pump-dial]').getByText('pump-dial').waitFor()
    await opened.jobs?.later('fail', {}, { user: user.did })
    await page.getByRole('button', { name: 'Notices, 1 unread' }).waitFor()
    await expect
      .poll(() => page.locator('.bell [aria-live=polite]').textContent())
      .toContain('A task of helper could not be done')
    await bell.focus()
    await page.keyboard.press('Enter')
    const list = page.getByRole('region', { name: 'Notices' })
    await list.getByRole('button', { name: 'Mute helper' }).click()
    await list.getByRole('button', { name: 'Unmute helper' }).waitFor()
    await list.getByRole('button', { name: 'Unmute helper' }).click()
    await list.getByRole('button', { name: 'Mute helper', exact: true }).waitFor()
    if (process.env.SCREENSHOTS)
      await page.screenshot({ path: `${process.env.SCREENSHOTS}/bell.png` })
    await page.keyboard.press('Escape')
    await list.waitFor({ state: 'hidden' })
    expect(await bell.evaluate((button) => button === document.activeElement)).toBe(true)
    await show(page, 'Capabilities')
    const facts = page.getByRole('article', { name: 'helper' }).locator('dl.facts')
    expect((await facts.innerText()).split('\n')).toEqual(
      expect.arrayContaining(['Uses', 'playground']),
    )
    await bell.click()
    await list.getByRole('button', { name: /A task of helper/ }).click()
    await page.getByRole('button', { name: 'Notices', exact: true }).waitFor()
    expect(complaints).toEqual([])
  }, 60_000)

  it('shows the words of a reminder as they come, and rings the bell of another browser', async () => {
    const { default: playground } = await import('../../plugins/playground/index.ts')
    const app = await testApp({
      plugins: [playground, reminders],
      clock: true,
      env: { NODE_ENV: 'development' },
    })
    open.push(app)
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } })
    open.push(context)
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${app.url}/playground/#/chat`)
    await page.waitForURL(/#\/chat\/.+/)
    // An empty chat offers what the plugins of this app give as examples, and nothing of others.
    const openers = page.getByRole('list', { name: 'Suggestions' }).getByRole('button')
    await openers.first().waitFor()
    expect(await openers.allInnerTexts()).toEqual(['Remind me in one minute to call the clinic.'])
    const asked = page.locator('[data-tool=remind_me]').getByText('done')
    await say(page, 'Remind me in one minute to call the clinic')
    await asked.waitFor()
    await ready(page)
    await say(page, 'Remind me in five minutes to water the plants')
    await asked.nth(1).waitFor()
    await ready(page)

    const words = (where: Page, text: string) =>
      where.locator('.oc-ai .oc-markdown').getByText(text, { exact: true })
    expect(await words(page, 'Reminder: call the clinic.').count()).toBe(0)
    let loads = 0
    page.on('load', () => loads++)
    // The open chat marks what it shows as seen.
    const seen = page.waitForResponse(
      (response) => response.url().endsWith('/notices/seen') && response.ok(),
    )
    await app.clock.advance('1m')
    await words(page, 'Reminder: call the clinic.').waitFor()
    expect(loads).toBe(0)
    await seen
    await page.reload()
    await words(page, 'Reminder: call the clinic.').waitFor()
    expect(loads).toBe(1)

    // Another browser of the same user, in which no chat is open. The key of the user is in the storage of the page.
    const other = await browser.newContext({ storageState: await context.storageState() })
    open.push(other)
    other.setDefaultTimeout(30_000)
    await context.close()
    const elsewhere = await other.newPage()
    const complaintsElsewhere = complaintsOf(elsewhere)
    await elsewhere.goto(`${app.url}/playground/#/capabilities`)
    const bell = elsewhere.getByRole('button', { name: /^Notices/ })
    await elsewhere.getByRole('button', { name: 'Notices', exact: true }).waitFor()
    await app.clock.advance('4m')
    await elsewhere.getByRole('button', { name: 'Notices, 1 unread' }).waitFor()
    await bell.click()
    const list = elsewhere.getByRole('region', { name: 'Notices' })
    await list.getByRole('link', { name: /water the plants/ }).click()
    await words(elsewhere, 'Reminder: water the plants.').waitFor()
    await words(elsewhere, 'Reminder: call the clinic.').waitFor()
    await elsewhere.getByRole('button', { name: 'Notices', exact: true }).waitFor()
    expect([...complaints, ...complaintsElsewhere]).toEqual([])
  }, 120_000)

  it('shows a question about the weather through to the answer, with its tools and their component', async () => {
    const { page, complaints } = await visit()
    // Capabilities was opened before anything was loaded.
    await show(page, 'Capabilities')
    const load = page.getByRole('button', { name: 'Load weather', exact: true })
    const before = page.getByRole('article', { name: 'weather' })
    expect(await before.getAttribute('data-state')).toBe('available')
    await page.evaluate(() => Object.assign(window, { isTheSame: true }))
    await show(page, 'Chat')
    const question = page.getByRole('button', { name: 'What is the weather in Lusaka?' })
    const others = page.getByRole('button', { name: 'Others' })
    await others.waitFor()
    while (!(await question.isVisible())) await others.click()
    await question.click()
    await page.locator('[data-tool=load_capability]').getByText('done').waitFor()
    await page.locator('[data-tool=get_current_weather]').getByText('done').waitFor()
    await page.locator('[data-tool=WeatherCard]').getByText('Lusaka').first().waitFor()
    await ready(page)
    await expect.poll(() => page.locator('.oc-ai .oc-markdown').last().innerText()).toMatch(/24\.5/)
    const card = page.locator('.weather-card')
    await card.getByText('24.5°C').waitFor()
    expect(await card.innerText()).toMatch(/Lusaka, Zambia\s+mainly clear/)

    await show(page, 'Capabilities')
    const plugin = page.getByRole('article', { name: 'weather' })
    await plugin.getByText('Loaded by the agent in the last turn.').waitFor()
    await expect.poll(() => plugin.getAttribute('data-state')).toBe('loaded in this chat')
    expect(await load.count()).toBe(0)
    expect(await page.evaluate('isTheSame')).toBe(true)

    await show(page, 'Wire')
    await page.getByLabel('Filter').fill('get_current_weather')
    await page.locator('.traffic').getByText('tool_call').first().waitFor()

    await show(page, 'Chat')
    await page.reload()
    await card.getByText('Lusaka').waitFor()
    expect(await card.count()).toBe(1)
    expect(complaints).toEqual([])
  })

  it('loses nothing of a long answer to a reload, and stops one', async () => {
    const { page, complaints } = await visit()
    await say(page, 'Tell me a long story.')
    const answer = page.locator('.oc-ai .oc-markdown').last()
    await expect
      .poll(async () => (await answer.innerText()).length, { timeout: 15_000 })
      .toBeGreaterThan(200)
    const before = await answer.innerText()
    await page.reload()
    await expect
      .poll(async () => (await answer.innerText()).length, { timeout: 15_000 })
      .toBeGreaterThan(before.length + 100)
    expect((await answer.innerText()).startsWith(before)).toBe(true)
    await page.getByRole('button', { name: 'Stop' }).click()
    await ready(page)
    const stopped = await answer.innerText()
    await page.waitForTimeout(500)
    expect(await answer.innerText()).toBe(stopped)
    expect(complaints).toEqual([])
  }, 60_000)

  it('loads a capability by hand, and asks the agent for a tool by its form', async () => {
    const { page, complaints } = await visit()
    await say(page, 'What can you do?')
    await ready(page)
    await show(page, 'Capabilities')
    const plugin = page.getByRole('article', { name: 'sampling' })
    await plugin.getByRole('button', { name: 'Load sampling' }).click()
    await plugin.getByText('loaded in this chat').waitFor()

    const weatherPlugin = page.getByRole('article', { name: 'weather' })
    await weatherPlugin.getByText('get_current_weather').click()
    await weatherPlugin.getByLabel('city').first().fill('Lusaka')
    await weatherPlugin.getByRole('button', { name: 'Ask the agent' }).first().click()
    await page.locator('[data-tool=get_current_weather]').getByText('done').waitFor()
    expect(complaints).toEqual([])
  })

  it('asks before a write, with everything that is to be written in sight, and is answered by the keyboard', async () => {
    const { page, complaints } = await visit()
    await say(page, 'Set my preferences with custom instructions "always end with a proverb"')
    const question = page.getByRole('region', { name: 'Waits for you' })
    await question.waitFor()
    await page.locator('[data-tool=set_user_preferences]').getByText('Waits for you').waitFor()
    const words = question.locator('pre')
    expect(await words.innerText()).toContain('always end with a proverb')
    expect(
      await words.evaluate(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight),
    ).toBeLessThanOrEqual(0)
    await expect
      .poll(() => question.evaluate((element) => document.activeElement === element))
      .toBe(true)
    for (let presses = 0; presses < 2; presses++) await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.locator('[data-tool=set_user_preferences]').getByText('done').waitFor()
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.getAttribute('aria-label')))
      .toBe('Messages')
    expect(complaints).toEqual([])
  })

  it('creates an account on the phone and logs in with it', async () => {
    const { page, complaints } = await visit('phone')
    const screen = page.getByRole('log', { name: 'Screen' })
    const type = async (input: string, then: RegExp) => {
      await page.getByLabel('Reply').fill(input)
      await page.getByRole('button', { name: 'Send' }).click()
      await expect.poll(() => screen.innerText()).toMatch(then)
    }
    await page.getByRole('button', { name: /^Dial/ }).click()
    await expect.poll(() => screen.innerText()).toMatch(/Account/)
    await type('2', /Create an account/)
    await type('1', /Your name/)
    await type('Amina', /e-mail/)
    await type('1', /Choose a PIN/)
    await type('60715', /once more/)
    await type('60715', /customer number is \d{9}/)
    const customer = /\d{9}/.exec(await screen.innerText())![0]

    const again = page.getByRole('button', { name: /^Dial/ })
    if (!(await again.isVisible())) await page.getByRole('button', { name: 'Hang up' }).click()
    await again.click()
    await expect.poll(() => screen.innerText()).toMatch(/2\. Account/)
    await type('2', /Log in/)
    await type('2', /customer number/)
    await type(customer, /Your PIN/)
    await type('60715', /Welcome back, Amina/)
    await expect
      .poll(() => page.getByLabel('Debug record of the call').innerText())
      .toContain('"isAuthenticated": true')
    expect(complaints).toEqual([])
  })

  it('works out a sample with its plot, draws it, and checks the draw', async () => {
    const { page, complaints } = await visit('sampling')
    await page.getByText('precision 0.05: 112').waitFor()
    await page.getByRole('button', { name: 'Add strata' }).click()
    await page.getByRole('button', { name: 'Work it out and keep it' }).click()
    const design = page.getByRole('region', { name: 'The design', exact: true })
    await expect.poll(() => design.innerText()).toMatch(/272/)
    await page.getByRole('button', { name: /Make up 5,000/ }).click()
    await page.getByRole('button', { name: 'Commit' }).click()
    await page.getByText('Frozen at').waitFor()
    await page.getByRole('button', { name: 'Throw dice' }).click()
    await page.getByRole('button', { name: 'Draw' }).click()
    await page.getByText(/all 5,000 tickets were drawn again/).waitFor()
    await page.getByText('urban: 163 drawn').waitFor()
    expect(complaints).toEqual([])
  })

  it('creates an organisation, finds it in the graph, and shows two writers their conflict', async () => {
    const { page, complaints, context } = await visit('registry')
    await page.getByLabel('Name', { exact: true }).fill('Zambia Cooking Trust')
    await page.getByRole('button', { name: 'Create' }).click()
    const graph = page.getByRole('group', { name: 'Entities and how they relate' })
    await graph.getByRole('link', { name: /Zambia Cooking Tr.* OrganisationEntity/ }).waitFor()
    await graph.getByRole('link', { name: /^members MembershipGroup/ }).waitFor()
    await page.getByLabel('Search').fill('Cooking')
    await page.getByRole('link', { name: 'Zambia Cooking Trust OrganisationEntity' }).waitFor()

    const other = await context.newPage()
    await other.goto(page.url())
    await other.getByLabel('Properties', { exact: true }).fill('{ "name": "Theirs" }')
    await other.getByRole('button', { name: 'Save' }).click()
    await other.getByText('Saved as version').waitFor()
    await page.getByLabel('Properties', { exact: true }).fill('{ "name": "Mine" }')
    await page.getByRole('button', { name: 'Save', exact: true }).click()
    const conflict = page.getByRole('group', { name: 'Conflict' })
    await conflict.getByText('"name": "Theirs"').waitFor()
    await conflict.getByRole('button', { name: 'Save mine over it' }).click()
    await page.getByText('Saved as version 3.').waitFor()
    // The browser itself notes the refused write.
    expect(complaints.filter((one) => !one.includes('412'))).toEqual([])
  })

  it('tries a route of the API and shows its answer', async () => {
    const { page, complaints } = await visit('api')
    await page.getByLabel('Filter').fill('/weather/now')
    await page.getByText('/weather/now').click()
    await page.getByLabel(/^city/).fill('Lusaka')
    await page.getByRole('button', { name: 'Send' }).click()
    await expect
      .poll(() => page.getByRole('region', { name: 'Answer' }).innerText())
      .toContain('24.5')
    expect(complaints).toEqual([])
  })

  it.each([
    [1280, 'light'],
    [375, 'dark'],
  ] as const)(
    'has no fault that axe finds, and nothing to scroll sideways, at %i px, %s',
    async (width, colorScheme) => {
      const axe = await readFile(join(root, 'node_modules/axe-core/axe.min.js'), 'utf8')
      const { page, complaints } = await visit('', {
        viewport: { width, height: 800 },
        colorScheme,
      })
      await say(page, 'What is the weather in Lusaka?')
      await page.locator('[data-tool=get_current_weather]').getByText('done').waitFor()
      await ready(page)
      for (const view of views) {
        await page.goto(`${url}/playground/#/${view}`)
        await page.waitForTimeout(400)
        if (view === 'phone') await page.getByRole('button', { name: /^Dial/ }).click()
        if (view === 'sampling')
          await page.getByRole('button', { name: 'Work it out and keep it' }).click()
        if (view === 'registry') {
          await page.getByLabel('Name', { exact: true }).fill(`Trust ${width}`)
          await page.getByRole('button', { name: 'Create' }).click()
        }
        await page.waitForTimeout(400)
        await page.evaluate((source) => (0, eval)(source), axe).catch(() => page.evaluate(axe))
        const found = await page.evaluate(async () => {
          const { violations } = await (
            globalThis as unknown as {
              axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> }
            }
          ).axe.run()
          return violations.map(
            ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' | ')}`,
          )
        })
        expect([view, ...found]).toEqual([view])
        const overflow = await page.evaluate(() =>
          [
            document.documentElement,
            ...document.querySelectorAll('main, .pane, .card, .oc-message, .side'),
          ]
            .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth + 1)
            .map(({ className, textContent }) => `${className}: ${textContent?.slice(0, 40)}`),
        )
        expect([view, ...overflow]).toEqual([view])
      }
      expect(complaints).toEqual([])
    },
    90_000,
  )

  it('keeps its lines where they are while words arrive', async () => {
    const { page } = await visit()
    await say(page, 'Tell me a long story.')
    // The message and the first words make room for themselves; from here on nothing may move.
    await page
      .locator('.oc-ai .oc-markdown')
      .last()
      .getByText(/\S+\s+\S+/)
      .waitFor()
    await page.evaluate(() => {
      const moved: number[] = ((globalThis as { moved?: number[] }).moved = [])
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries() as unknown as LayoutShift[])
          if (!entry.hadRecentInput) moved.push(entry.value)
      }).observe({ type: 'layout-shift', buffered: false })
    })
    await page.waitForTimeout(6_000)
    const moved = await page.evaluate(() => (globalThis as { moved?: number[] }).moved!)
    expect(moved.reduce((sum, value) => sum + value, 0)).toBeLessThan(0.02)
  }, 30_000)

  it('reaches the skip link, the views and a new chat by the keyboard alone', async () => {
    const { page } = await visit('chat')
    await page.getByLabel('Message', { exact: true }).waitFor()
    await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur())
    const reached = new Set<string>()
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press('Tab')
      reached.add(
        await page.evaluate(() => {
          const element = document.activeElement as HTMLElement
          return (
            element.getAttribute('aria-label') ??
            element.innerText?.trim().split('\n')[0] ??
            element.tagName
          )
        }),
      )
    }
    for (const name of ['Skip to the view', 'Chat', 'Capabilities', 'API', 'New chat'])
      expect([...reached]).toContain(name)
  })
})
