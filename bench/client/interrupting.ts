import { scriptedModel, testApp } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import {
  CallingPage,
  launchCaller,
  quantile,
  wavOfSpeech,
} from '../../test/playground/calling/calling-page.ts'
import { builtPage } from '../../test/support/built-page.ts'
import { beeps } from '../../test/support/calling-voice.ts'

// Ten times somebody speaks over the agent on a page in Chromium: how long the page is still heard, measured in the page.
const times = 10
const asked = 'Please wait, I would like to know something else about fish.'
const long = Array.from({ length: 150 }, (_, i) => `Word${i}${i % 6 === 5 ? '.' : ''}`).join(' ')

await builtPage()
const speech = await wavOfSpeech(asked)
const browser = await launchCaller(process.env.TEST_CHROMIUM ?? 'chromium')
const app = await testApp({
  plugins: [playground, calls],
  model: scriptedModel(Array.from({ length: times + 1 }, () => long)),
  env: {
    ...{ NODE_ENV: 'development', CALLS_VOICE: 'command', CALLS_VOICE_COMMAND: beeps('--soft') },
    CALLS_HEARING: 'command',
    CALLS_HEARING_COMMAND: JSON.stringify(['sh', '-c', `cat > /dev/null; echo "${asked}"`]),
  },
})
try {
  const caller = await CallingPage.open(browser, app.url)
  await caller.call()
  await caller.type('Tell me everything.')
  const took: number[] = []
  for (let from = 0; took.length < times;) {
    await caller.hears(4, from)
    const began = await caller.play(speech)
    from = await caller.silentFrom(began, 0.5)
    took.push(Math.round((from - began) * 1_000))
  }
  console.log(
    `Who speaks over the agent is let speak after ${quantile(took, 0.5)} ms (p90 ${quantile(took, 0.9)}), of ${times} times on a page.`,
  )
} finally {
  await browser.close()
  await app.close()
}
