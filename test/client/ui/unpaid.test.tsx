import './window.ts'
import { expect, it } from 'vitest'
import { scriptedModel } from '#core/testing'
import showcase from '../../../plugins/showcase/index.ts'
import { testOracle } from '../oracle.ts'
import { until } from '../page.ts'
import { person } from './person.tsx'

it('shows what was said once, beside what has to be paid for it, at once and after a reload', async () => {
  await using oracle = await testOracle({
    plugins: [showcase],
    model: scriptedModel([]),
    env: { NODE_ENV: 'development', SHOWCASE_PACE: '0' },
  })
  const seen = person(oracle)
  const counts = new Set<number>()
  const watching = new window.MutationObserver(() => {
    counts.add(seen.texts('.oc-said').filter((text) => text.includes('/show payment')).length)
  })
  watching.observe(seen.container, { childList: true, subtree: true, characterData: true })
  await seen.say('/show payment')
  await seen.button('Pay')
  expect(seen.texts('.oc-said')).toEqual(['/show payment'])
  watching.disconnect()
  expect(Math.max(...counts)).toBe(1)
  ;(await seen.button('Pay')).click()
  await until(() => seen.texts('.oc-markdown').some((text) => text.includes('It is paid')))
  expect(seen.texts('.oc-said')).toEqual(['/show payment'])
})

it('shows what was paid for once, also where the history was read again meanwhile', async () => {
  await using oracle = await testOracle({
    plugins: [showcase],
    model: scriptedModel([]),
    env: { NODE_ENV: 'development', SHOWCASE_PACE: '0' },
  })
  const sessionId = await oracle.session()
  const tab = oracle.tab()
  const seen = person(oracle, { sessionId }, oracle.within(tab))
  await seen.say('/show payment')
  const pay = await seen.button('Pay')
  const { oracleDid, overrides } = oracle
  await tab.chat({ oracleDid, overrides, sessionId }).refetchMessages()
  expect(seen.texts('.oc-said')).toEqual(['/show payment'])
  pay.click()
  await until(() => seen.texts('.oc-markdown').some((text) => text.includes('It is paid')))
  expect(seen.texts('.oc-said')).toEqual(['/show payment'])
})
