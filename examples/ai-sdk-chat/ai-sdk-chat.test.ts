import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import type { Browser } from 'playwright-core'
import { build } from 'vite'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import aiSdk from '../../plugins/ai-sdk/index.ts'
import { complaintsOf, launch } from '../../test/support/browser.ts'
import { describeWith } from '../../test/support/services.ts'

const wiped: string[] = []
const shed = definePlugin({
  name: 'shed',
  summary: 'Has tools.',
  visibility: 'always',
  tools: {
    look: {
      description: 'Looks.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: (_, { emit }) => (emit.component('gauge', { value: 41 }), 'seen'),
    },
    wipe: {
      description: 'Wipes.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => (wiped.push(what), 'wiped'),
    },
  },
})

await describeWith('chromium', 'the example of the AI SDK', (executablePath) => {
  const folder = mkdtempSync(join(tmpdir(), 'ai-sdk-chat-'))
  let browser: Browser
  let site = ''
  const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript' }
  const server = createServer(({ url }, res) => {
    const { pathname } = new URL(url ?? '/', 'http://localhost')
    const file = pathname === '/' ? '/index.html' : pathname
    res.setHeader('content-type', types[extname(file)] ?? 'text/plain')
    res.end(readFileSync(join(folder, file)))
  })

  beforeAll(async () => {
    await build({
      root: import.meta.dirname,
      logLevel: 'silent',
      build: { outDir: folder, emptyOutDir: true, target: 'es2022' },
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    site = `http://127.0.0.1:${Object(server.address()).port}`
    browser = await launch(executablePath)
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })

  it('shows words, tools and components, asks, runs its own tool, and has every word once after a reload', async () => {
    const going = Promise.withResolvers<void>()
    const model = scriptedModel([
      { reasoning: 'Hm.', calls: [{ call: 'look', args: {} }] },
      'It is 41.',
      [call('wipe', { what: 'logs' }), call('wipe', { what: 'mail' })],
      'Logs are gone, mail is not.',
      'Mail stays.',
      call('look_at_the_clock'),
      'That late.',
      async () => {
        await going.promise
        return { text: ['Half. ', 'Whole.'] }
      },
      ({ signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('Too late.'))),
    ])
    await using app = await testApp({ plugins: [aiSdk, shed], model })
    const user = await app.user()
    const key = String((await user.post('/keys', { name: 'a page' })).body.key)
    const context = await browser.newContext()
    context.setDefaultTimeout(30_000)
    const page = await context.newPage()
    const complaints = complaintsOf(page)
    await page.goto(`${site}/?oracle=${app.url}&chat=mine#key=${key}`)
    const say = async (words: string) => {
      await page.getByLabel('Your message').fill(words)
      await page.getByRole('button', { name: 'Send' }).click()
    }
    const answers = page.getByRole('article', { name: 'assistant' })
    await say('Look')
    await answers.getByText('It is 41.').waitFor()
    await answers.getByText('Hm.').waitFor()
    await answers.getByText('{"name":"gauge","args":{"value":41}}').waitFor()

    await say('Wipe')
    const approve = page.getByRole('button', { name: 'Approve' })
    await approve.click()
    await page.getByText('{"what":"mail"}').waitFor()
    await page.getByRole('button', { name: 'Deny' }).click()
    await answers.getByText('Logs are gone').waitFor()
    expect(wiped).toEqual(['logs'])
    // Each of the two calls is one part.
    expect(await answers.last().getByRole('group').allTextContents()).toEqual([
      expect.stringContaining('wipe: output-available'),
      expect.stringContaining('wipe: output-denied'),
    ])
    await page.getByRole('button', { name: 'Another answer' }).click()
    await answers.getByText('Mail stays.').waitFor()
    expect(await answers.getByText('Logs are gone').count()).toBe(0)

    await say('What time is it?')
    await answers.getByText('That late.').waitFor()
    const read = model.requests.at(-1)?.messages.at(-1)?.content ?? ''
    expect(String(read)).toMatch(/\d:\d\d/)

    await say('Slowly')
    await expect.poll(() => model.requests.length).toBe(8)
    await page.reload()
    await page.getByText('Slowly').waitFor()
    going.resolve()
    await answers.getByText('Half. Whole.').waitFor()
    expect(await page.getByText('Half. Whole.').count()).toBe(1)
    expect(await answers.getByText('It is 41.').count()).toBe(1)

    await say('For ever')
    await expect.poll(() => model.requests.length).toBe(9)
    await page.getByRole('button', { name: 'Stop' }).click()
    await expect.poll(() => page.getByRole('button', { name: 'Send' }).isEnabled()).toBe(true)
    expect(complaints).toEqual([])
  }, 120_000)
})
