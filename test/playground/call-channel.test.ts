import { setTimeout as rest } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { builtPage } from '../support/built-page.ts'
import { describeWith } from '../support/services.ts'
import { CallingPage, launchCaller, quantile } from './calling/calling-page.ts'

await describeWith('chromium', 'the data channel of a call', (program) => {
  it('brings every frame of the agent at once, although the page has said nothing but its beat for seconds', async () => {
    await builtPage()
    const browser = await launchCaller(program)
    onTestFinished(() => browser.close())
    const endedAt: number[] = []
    const waiting = definePlugin({
      name: 'waiting',
      summary: 'Waits.',
      visibility: 'always',
      tools: {
        wait: {
          description: 'Waits.',
          effect: 'read',
          foreign: false,
          input: z.object({ ms: z.number() }),
          async run({ ms }) {
            await rest(ms)
            endedAt.push(Date.now())
            return 'waited'
          },
        },
      },
    })
    const times = [3_500, 30, 40, 700, 50, 2_200, 30, 60]
    await using app = await testApp({
      plugins: [playground, calls, waiting],
      model: scriptedModel([...times.map((ms) => call('wait', { ms })), 'Done.']),
      env: { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' },
    })
    const caller = await CallingPage.open(browser, app.url)
    await caller.call('Call without a microphone')
    await caller.type('Wait for a while.')
    await caller.page.getByRole('log', { name: 'Captions' }).getByText('Done.').waitFor()
    const came = (await caller.frames('tool')).filter(({ status }) => status !== 'isRunning')
    expect(came).toHaveLength(times.length)
    const late = came.map(({ at }, i) => at - endedAt[i]!)
    console.log(
      `Frames came after ${late.join(', ')} ms: median ${quantile(late, 0.5)}, p90 ${quantile(late, 0.9)}`,
    )
    // A frame that waits for the timer of a page that is silent comes a second later.
    expect(quantile(late, 0.9)).toBeLessThan(700)
    await caller.hangUp()
  }, 240_000)
})
