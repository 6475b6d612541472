import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import calls from '../../plugins/calls/index.ts'
import playground from '../../plugins/playground/index.ts'
import { CallingPage, launchCaller, quantile } from '../../test/playground/calling/calling-page.ts'
import { builtPage } from '../../test/support/built-page.ts'

// How soon a model that asks for a picture of the camera has it, on a page in Chromium: once in a turn, and three times in a row.
const questions = 10
const inARow = 3
const goalMs = 500

const once: number[] = []
const again: number[] = []
let askedAt = 0
const looks = (waited: number[] | undefined): ScriptedStep => {
  return () => {
    if (waited) waited.push(performance.now() - askedAt)
    askedAt = performance.now()
    return call('look_at_camera')
  }
}
const seen = (waited: number[], nth: number): ScriptedStep => {
  return () => {
    waited.push(performance.now() - askedAt)
    return `Seen ${nth}.`
  }
}

await builtPage()
const browser = await launchCaller(process.env.TEST_CHROMIUM ?? 'chromium')
const steps = Array.from({ length: questions }, (_, nth) => [
  ...[looks(undefined), seen(once, nth)],
  ...[looks(undefined), ...Array.from({ length: inARow - 1 }, () => looks(again))],
  seen(again, questions + nth),
])
const app = await testApp({
  plugins: [playground, calls],
  model: scriptedModel(steps.flat(), { reads: { image: ['image/*'] } }),
  env: { NODE_ENV: 'development', CALLS_VOICE: 'none', CALLS_HEARING: 'typed' },
})
try {
  const caller = await CallingPage.open(browser, app.url)
  await caller.call('Call with camera')
  const captions = caller.page.getByRole('log', { name: 'Captions' })
  for (let nth = 0; nth < questions; nth++)
    for (const answer of [nth, questions + nth]) {
      // At any moment between two pictures of the camera.
      await caller.page.waitForTimeout(1_000 + Math.random() * 200)
      await caller.type('What do you see?')
      await captions.getByText(`Seen ${answer}.`, { exact: true }).waitFor()
    }
  for (const [what, took] of [
    ['A picture of the camera', once],
    [`Each of ${inARow} in a row`, again],
  ] as const)
    console.log(
      `${what} is with the model after ${Math.round(quantile(took, 0.5))} ms (p90 ${Math.round(quantile(took, 0.9))}), ` +
        `of ${took.length} on a page; the goal is ${goalMs}.`,
    )
} finally {
  await browser.close()
  await app.close()
}
