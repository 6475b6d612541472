import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import type { ModelRequest } from '#core'
import { call, scriptedModel, testApp, type TestApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { asksFirst } from '../support/asks-first.ts'
import { builtPage } from '../support/built-page.ts'
import { root } from '../support/process.ts'
import { describeWith } from '../support/services.ts'
import { launchCaller } from './calling/calling-page.ts'

interface Watched {
  /** What was put into the live region, line by line, and whether a line was changed or taken out. */
  lines: string[]
  changes: number
  axe: { run(): Promise<{ violations: { id: string }[] }> }
}

const patient = 60_000
const answer = 'First this. Then that. And then the end.'
const bank = asksFirst()

/** Watches what a screen reader is told: what is added to the log, and what is changed in it. */
const watch = () => {
  const seen = globalThis as unknown as Watched
  seen.lines = []
  seen.changes = 0
  new MutationObserver((records) => {
    const log = document.querySelector('[role=log]')
    for (const { type, target, addedNodes, removedNodes } of records) {
      if (!log?.contains(target)) continue
      if (type === 'characterData' || target !== log) seen.changes++
      for (const node of addedNodes) if (target === log) seen.lines.push(node.textContent ?? '')
      seen.changes += removedNodes.length
    }
  }).observe(document, { childList: true, subtree: true, characterData: true })
}

async function faultsOf(page: Page): Promise<string[]> {
  const axe = await readFile(join(root, 'node_modules/axe-core/axe.min.js'), 'utf8')
  await page.evaluate(axe)
  return page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as Watched).axe.run()
    return violations.map(({ id }) => id)
  })
}

/** Goes to the next thing that has this name by the key Tab alone. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate(() => {
      const { activeElement: element } = document
      const label =
        element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : undefined
      return (label ?? element?.textContent ?? '').trim()
    })
    if (focused === name) return
  }
  throw new Error(`The key Tab does not reach “${name}”.`)
}

await describeWith('chromium', 'a call by keyboard', (program) => {
  let app: TestApp
  let browser: Browser

  beforeAll(async () => {
    await builtPage()
    app = await testApp({
      plugins: [playground, calls, bank.plugin],
      model: scriptedModel(
        Array.from({ length: 8 }, () => ({ messages }: ModelRequest) => {
          const { role, content } = messages.at(-1)!
          if (role === 'tool') return 'It is paid.'
          return String(content).includes('Pay') ? call('pay', { amount: 5 }) : answer
        }),
      ),
      env: { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'browser' },
    })
    browser = await launchCaller(program)
  }, 240_000)
  afterAll(async () => {
    await browser?.close()
    await app?.close()
  }, 60_000)

  async function visit(prepare: () => unknown = () => {}) {
    const context = await browser.newContext()
    onTestFinished(() => context.close())
    context.setDefaultTimeout(patient)
    await context.addInitScript(watch)
    await context.addInitScript(prepare)
    const page = await context.newPage()
    await page.goto(`${app.url}/playground/#/calls`)
    await page.getByRole('heading', { name: 'Where the sound goes' }).waitFor()
    return page
  }

  it('is made, typed into, and hung up; each line is told once, when it is whole', async () => {
    const page = await visit()
    await tabTo(page, 'Call without a microphone')
    await page.keyboard.press('Enter')
    await page.getByText('Listening.').waitFor()
    // The region is there before its first line: what comes together with its region is not read out.
    expect(await page.getByRole('log', { name: 'Captions' }).innerText()).toBe('')
    expect(await faultsOf(page)).toEqual([])
    await tabTo(page, 'Say it in writing')
    await page.keyboard.type('Tell me.')
    await page.keyboard.press('Enter')
    const log = page.getByRole('log', { name: 'Captions' })
    await log.getByText('And then the end.').waitFor()
    await page.getByText('Listening.').waitFor()
    const { lines, changes } = await page.evaluate(() => {
      const { lines, changes } = globalThis as unknown as Watched
      return { lines, changes }
    })
    expect(lines.map((line) => line.trim())).toEqual([
      ...[
        'You: Tell me.',
        'Oracle: First this.',
        'Oracle: Then that.',
        'Oracle: And then the end.',
      ],
    ])
    expect(changes).toBe(0)
    expect(await faultsOf(page)).toEqual([])
    await tabTo(page, 'Hang up')
    await page.keyboard.press('Enter')
    await page.getByText('You hung up.').waitFor()
    expect(await faultsOf(page)).toEqual([])
    await tabTo(page, 'Open the conversation')
    await page.keyboard.press('Enter')
    await page.getByRole('article', { name: 'Oracle' }).getByText('First this.').waitFor()
  }, 240_000)

  it('is decided about, and its microphone is put off and on, by the keys alone', async () => {
    // Without what recognizes speech nothing is to be agreed to.
    const page = await visit(() =>
      Object.assign(globalThis, {
        SpeechRecognition: undefined,
        webkitSpeechRecognition: undefined,
      }),
    )
    await tabTo(page, 'Call') // the way to this view
    await tabTo(page, 'Call')
    await page.keyboard.press('Enter')
    await page.getByText('Listening.').waitFor()
    await tabTo(page, 'Microphone on')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Microphone off' }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Microphone on' }).waitFor()
    await tabTo(page, 'Say it in writing')
    await page.keyboard.type('Pay the rent.')
    await page.keyboard.press('Enter')
    const question = page.getByRole('group', { name: 'Your decision' })
    await question.waitFor()
    expect(await faultsOf(page)).toEqual([])
    await tabTo(page, 'Approve')
    await page.keyboard.press('Enter')
    await page.getByRole('log', { name: 'Captions' }).getByText('It is paid.').waitFor()
    expect([bank.seen.paid, await question.count()]).toEqual([1, 0])
    await tabTo(page, 'Hang up')
    await page.keyboard.press('Enter')
    await page.getByText('You hung up.').waitFor()
  }, 240_000)

  it('asks by a box before the recognizer of the browser may use a server of its maker', async () => {
    const page = await visit(() => {
      // Stands in for the class of a browser that does not recognize on the device.
      Object.assign(globalThis, {
        SpeechRecognition: class extends EventTarget {
          static available(): Promise<string> {
            return Promise.resolve('unavailable')
          }
          start() {}
          abort() {}
        },
      })
    })
    await page.getByText('may send your voice to its maker for it').waitFor()
    expect(await page.getByRole('button', { name: 'Call', exact: true }).isDisabled()).toBe(true)
    expect(await page.getByRole('button', { name: 'Call with camera' }).isDisabled()).toBe(true)
    await page.getByRole('checkbox', { name: 'go to the maker of this browser' }).focus()
    await page.keyboard.press('Space')
    await tabTo(page, 'Call')
    await page.keyboard.press('Enter')
    await page.getByText('Listening.').waitFor()
    await page.getByRole('button', { name: 'Microphone on' }).waitFor()
    await page.getByRole('button', { name: 'Hang up' }).click()
    await page.getByText('You hung up.').waitFor()
  }, 240_000)

  it.each([
    ['NotAllowedError', 'The microphone was not allowed.'],
    ['NotFoundError', 'There is no microphone.'],
  ])(
    'says what is wrong with a microphone that answers %s, and a call in writing is one key away',
    async (name, words) => {
      const context = await browser.newContext()
      onTestFinished(() => context.close())
      context.setDefaultTimeout(patient)
      await context.addInitScript((kind) => {
        navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('No.', kind))
        Object.assign(globalThis, {
          SpeechRecognition: undefined,
          webkitSpeechRecognition: undefined,
        })
      }, name)
      const page = await context.newPage()
      await page.goto(`${app.url}/playground/#/calls`)
      await page.getByRole('button', { name: 'Call', exact: true }).click()
      await page.getByRole('alert').getByText(words).waitFor()
      expect(await faultsOf(page)).toEqual([])
      await tabTo(page, 'Call without a microphone')
      await page.keyboard.press('Enter')
      await page.getByText('Listening.').waitFor()
      await page.getByRole('button', { name: 'Hang up' }).click()
    },
    240_000,
  )
})
