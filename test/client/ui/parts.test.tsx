import './window.ts'
import { flushSync } from 'react-dom'
import { expect, it, vi } from 'vitest'
import { scriptedModel } from '#core/testing'
import { Progress, type ProgressProps } from '../../../client/ui.ts'
import feedback from '../../../plugins/feedback/index.ts'
import showcase from '../../../plugins/showcase/index.ts'
import { testOracle } from '../oracle.ts'
import { mount, until } from '../page.ts'
import { person } from './person.tsx'

const open = (pace = '0') =>
  testOracle({
    plugins: [feedback, showcase],
    model: scriptedModel([]),
    env: { FEATURES: 'showcase=on', SHOWCASE_PACE: pace },
  })

it('names what is to be paid, and sends the message by itself once it is', async () => {
  await using oracle = await open()
  const { texts, all, say, button } = person(oracle)
  await say('/show payment')
  await until(() => texts('.oc-payment li').join() === '1 SHOW,2 SHOW', 40_000)
  expect(all('.oc-error')).toEqual([])
  ;(await button('Pay', '.oc-payment')).click()
  await until(() => texts('.oc-markdown').some((text) => text.startsWith('It is paid')))
  expect(all('.oc-payment')).toEqual([])
  expect(texts('.oc-said')).toEqual(['/show payment'])
})

it('shows how far a call is with a bar, and no bar once it is done', async () => {
  await using oracle = await open('1.5')
  const { texts, all, say } = person(oracle)
  await say('/show progress')
  const told = await until(
    () => /^(\d) of 6\. meter \d/.exec(texts('.oc-progress span')[0] ?? ''),
    40_000,
  )
  const bar = all('.oc-progress progress')[0] as HTMLProgressElement
  expect(bar.max).toBe(6)
  expect(bar.value).toBeGreaterThanOrEqual(Number(told[1]))
  await until(() => texts('.oc-markdown').some((text) => text.startsWith('All six')), 40_000)
  expect(all('.oc-progress')).toEqual([])
})

it('tells a screen reader how far a call is at most every five seconds, and the last of it', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  try {
    const of = (done: number) => (
      <Progress
        progress={
          { toolCallId: 'c', done, total: 6, note: `meter ${done}` } as ProgressProps['progress']
        }
      />
    )
    const { container, render } = mount(of(1))
    const draw = (done: number) => flushSync(() => render(of(done)))
    const told: [seconds: number, text: string][] = []
    for (let second = 0; second <= 12; second++) {
      if (second > 0 && second <= 5) draw(second + 1)
      if (second === 2) {
        const bar = container.querySelector('progress')!
        expect([bar.value, bar.max]).toEqual([3, 6])
        expect(container.querySelector('span')?.textContent).toBe('3 of 6. meter 3')
      }
      // What React does after it has drawn.
      await new Promise((resolve) => setImmediate(resolve))
      flushSync(() => undefined)
      const text = container.querySelector('[role=status]')?.textContent ?? ''
      if (text !== told.at(-1)?.[1]) told.push([second, text])
      vi.advanceTimersByTime(1_000)
      await new Promise((resolve) => setImmediate(resolve))
      flushSync(() => undefined)
    }
    expect(told[0]).toEqual([0, '1 of 6. meter 1'])
    expect(told.at(-1)?.[1]).toBe('6 of 6. meter 6')
    expect(told.length).toBeLessThan(4)
    for (const [nth, [second]] of told.slice(1).entries())
      expect(second - told[nth]![0]).toBeGreaterThanOrEqual(5)
  } finally {
    vi.useRealTimers()
  }
})

it('takes what a reader thinks of an answer, and knows it after a reload', async () => {
  await using oracle = await open()
  const { all, texts, say, button } = person(oracle)
  await say('/show rtl')
  await until(() => texts('.oc-thread-name').length === 1)
  const pressed = (of: typeof all) =>
    of('.oc-actions [aria-pressed]').map((one) => one.getAttribute('aria-pressed'))
  ;(await button('Good answer')).click()
  await until(() => pressed(all).join() === 'true,false')
  const { sessions } = await oracle
    .tab()
    .request<{ sessions: { sessionId: string }[] }>(oracle.oracleDid, `${oracle.app.url}/sessions`)
  const again = person(oracle, { sessionId: sessions[0]?.sessionId })
  await until(() => pressed(again.all).join() === 'true,false')
  ;(await again.button('Good answer')).click()
  await until(() => pressed(again.all).join() === 'false,false')
})

it('lists its keys for ?, but not where somebody types one', async () => {
  await using oracle = await open()
  const { all, texts } = person(oracle)
  const field = await until(() => all('.oc-composer textarea')[0])
  const press = (target: EventTarget, key: string, more: object = {}) =>
    target.dispatchEvent(
      new window.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }),
    )
  press(field, '?')
  expect(all('.oc-shortcuts')).toEqual([])
  press(document.body, '?')
  await until(() => texts('.oc-shortcuts kbd').includes('Ctrl/⌘+K'))
  press(document.body, 'Escape')
  await until(() => all('.oc-shortcuts').length === 0)
  press(document.body, 'k', { ctrlKey: true })
  expect(document.activeElement?.className).toBe('oc-search')
})
