import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, expect, it, onTestFinished } from 'vitest'
import { call, scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { asksFirst } from '../support/asks-first.ts'
import { beeps } from '../support/calling-voice.ts'
import { CallingPage, wavOfSpeech } from './calling/calling-page.ts'
import { describeWithCaller } from './calling/with-caller.ts'

const patient = { timeout: 90_000, interval: 50 }

await describeWithCaller('an approval in a call of a page', (browser) => {
  let spoken: Record<'yes' | 'no', string>
  beforeAll(async () => {
    spoken = { yes: await wavOfSpeech('Yes, please!'), no: await wavOfSpeech('No thank you!') }
  }, 240_000)

  /** A call in which the agent has asked, aloud and on the page, whether it may pay. */
  async function asked() {
    const folder = mkdtempSync(join(tmpdir(), 'calls-approval-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const { plugin, seen } = asksFirst()
    const model = scriptedModel([call('pay', { amount: 5 }), 'That is settled.'])
    const script = `cat > /dev/null; cat ${folder}/means`
    const app = await testApp({
      plugins: [playground, calls, plugin],
      model,
      env: {
        NODE_ENV: 'development',
        CALLS_VOICE: 'command',
        CALLS_VOICE_COMMAND: beeps(),
        CALLS_HEARING: 'command',
        CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', script]),
      },
    })
    onTestFinished(() => app.close())
    const caller = await CallingPage.open(browser(), app.url)
    onTestFinished(() => caller.close())
    await caller.call()
    await caller.type('Pay the rent.')
    const question = caller.page.getByRole('group', { name: 'Your decision' })
    await question.getByText('"amount": 5').waitFor()
    await caller.hears(8)
    await caller.page.getByText('Waits for your decision.').waitFor()
    const captions = caller.page.getByRole('log', { name: 'Captions' })
    await captions.getByText('I would like to use pay. Please decide on the page.').waitFor()
    /** Says something aloud, which the recognizer understands as that. */
    const say = async (wav: keyof typeof spoken, text: string) => {
      writeFileSync(join(folder, 'means'), text)
      await caller.play(spoken[wav])
      await captions.getByText(text, { exact: true }).waitFor()
    }
    const settled = () => captions.getByText('That is settled.').waitFor()
    return { app, model, seen, caller, question, captions, say, settled }
  }

  /** The conversation of the call in another browser of the same person. */
  async function elsewhere(caller: CallingPage, url: string): Promise<Page> {
    const storageState = await caller.page.context().storageState()
    const other = await browser().newContext({ storageState })
    onTestFinished(() => other.close())
    other.setDefaultTimeout(patient.timeout)
    const about = await (await fetch(`${url}/calls`, { headers: caller.headers })).json()
    const page = await other.newPage()
    await page.goto(`${url}/playground/#/chat/${about.calls[0].sessionId}`)
    return page
  }

  it('a spoken yes leaves it waiting; the page approves, and the result is heard', async () => {
    const { caller, question, captions, say, settled, seen, model } = await asked()
    await say('yes', 'Yes.')
    await captions.getByText('Please decide on the page first.').waitFor()
    await caller.page.getByText('Waits for your decision.').waitFor()
    expect([seen.paid, model.requests.length, await question.count()]).toEqual([0, 1, 1])
    const since = await caller.now()
    await question.getByRole('button', { name: 'Approve' }).click()
    await settled()
    await caller.hears(3, since)
    expect(seen.paid).toBe(1)
    expect(await question.count()).toBe(0)
    await caller.hangUp()
  }, 200_000)

  it('a spoken no rejects', async () => {
    const { caller, question, say, settled, seen } = await asked()
    await say('no', 'No thank you.')
    await settled()
    expect(seen.paid).toBe(0)
    await expect.poll(() => question.count(), patient).toBe(0)
    await caller.hangUp()
  }, 200_000)

  it('a second browser approves: the question goes from the page, and the call speaks the result', async () => {
    const { app, caller, question, settled, seen } = await asked()
    const other = await elsewhere(caller, app.url)
    const since = await caller.now()
    await other.getByRole('button', { name: 'Approve' }).click()
    await settled()
    await caller.hears(3, since)
    expect(seen.paid).toBe(1)
    await expect.poll(() => question.count(), patient).toBe(0)
    await caller.hangUp()
  }, 200_000)

  it('a message in a second browser takes the place of the question: it goes from the page, and its answer is heard', async () => {
    const { app, caller, question, settled, seen } = await asked()
    const other = await elsewhere(caller, app.url)
    const since = await caller.now()
    await other.getByRole('textbox', { name: 'Message' }).fill('Something else, please.')
    await other.keyboard.press('Enter')
    await settled()
    await caller.hears(3, since)
    await expect.poll(() => question.count(), patient).toBe(0)
    await caller.page.getByText('Listening.').waitFor()
    expect(seen.paid).toBe(0)
    await caller.hangUp()
  }, 200_000)

  it('whoever hangs up finds the question in the chat, and decides there', async () => {
    const { caller, seen } = await asked()
    await caller.hangUp()
    await caller.page.getByRole('button', { name: 'Open the conversation' }).click()
    expect(seen.paid).toBe(0)
    await caller.page.getByRole('button', { name: 'Approve' }).click()
    await caller.page.locator('.oc-ai').getByText('That is settled.').waitFor()
    expect(seen.paid).toBe(1)
  }, 200_000)
})
