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
    const words = ['One.', 'Two.', 'Three.', 'Four.', 'Five.']
    await using app = await testApp({
      plugins: [playground, calls, waiting],
      model: scriptedModel([...times.map((ms) => call('wait', { ms })), 'Done.', ...words]),
      env: { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' },
    })
    const caller = await CallingPage.open(browser, app.url)
    await caller.call('Call without a microphone')
    await caller.type('Wait for a while.')
    const captions = caller.page.getByRole('log', { name: 'Captions' })
    await captions.getByText('Done.').waitFor()
    for (const word of words) {
      await caller.type(`Say ${word}`)
      await captions.getByText(`Oracle: ${word}`).waitFor()
    }
    // What the agent says at once to a frame of the page waits for nothing: so long it takes this machine there and back, just now.
    const sent = (await caller.studio((studio) => studio.sent, null)).map(({ at, text }) => ({
      ...{ at, ...(JSON.parse(text) as { type: string; id?: string }) },
    }))
    const echoes = (await caller.frames('caption')).filter(({ id }) => id.startsWith('say:'))
    const around = echoes.map(({ at, id }) => at - sent.find((one) => `say:${one.id}` === id)!.at)
    expect(around).toHaveLength(words.length + 1)
    const came = (await caller.frames('tool')).filter(({ status }) => status !== 'isRunning')
    expect(came).toHaveLength(times.length)
    const late = came.map(({ at }, i) => at - endedAt[i]!)
    console.log(
      `Frames came after ${late.join(', ')} ms: median ${quantile(late, 0.5)}, p90 ${quantile(late, 0.9)}; ` +
        `there and back it takes ${around.join(', ')} ms`,
    )
    // A frame that waits for the timer of a page that is silent comes a second later, on any machine.
    expect(quantile(late, 0.5)).toBeLessThan(100 + quantile(around, 0.5))
    expect(quantile(late, 0.9)).toBeLessThan(100 + 2 * Math.max(...around))
    await caller.hangUp()
  }, 240_000)
})
