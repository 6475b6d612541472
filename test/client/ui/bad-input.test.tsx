import './window.ts'
import { randomUUID } from 'node:crypto'
import { expect, it, vi } from 'vitest'
import { scriptedModel } from '#core/testing'
import { Progress, ToolCard } from '../../../client/ui.ts'
import { en } from '../../../client/ui/languages/en.ts'
import { testOracle, testWallet } from '../oracle.ts'
import { mount, until } from '../page.ts'
import { person } from './person.tsx'

it('shows the beginning of ten megabytes that a tool gave', () => {
  const output = 'x'.repeat(10 * 1024 * 1024)
  const call = { id: 'c', name: 'read', args: { output }, status: 'done', output } as const
  const { container } = mount(<ToolCard call={call} waits={false} />)
  const shown = [...container.querySelectorAll('pre')].map(({ textContent }) => textContent.length)
  expect(shown).toHaveLength(2)
  for (const length of shown) expect(length).toBeLessThanOrEqual(20_001)
})

it.each([
  [7, 6, '6', '6'],
  [-1, 6, '0', '6'],
])('draws a progress of %s of %s within its bar', (done, total, value, max) => {
  const { container } = mount(<Progress progress={{ toolCallId: 'c', done, total }} />)
  const bar = container.querySelector('progress')
  expect([bar?.getAttribute('value'), bar?.getAttribute('max')]).toEqual([value, max])
  expect(container.textContent).toContain(`${done} of ${total}.`)
})

it('draws no bar for a progress of nothing', () => {
  for (const total of [0, -3, undefined]) {
    const { container } = mount(<Progress progress={{ toolCallId: 'c', done: 2, total }} />)
    expect(container.querySelector('progress')).toBeNull()
  }
})

it('keeps the draft of one user from the next, and brings it back to its own', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const field = ({ all }: ReturnType<typeof person>) =>
    until(() => all('.oc-composer textarea')[0] as HTMLTextAreaElement | undefined)
  const ada = person(oracle)
  await field(ada)
  ada.write('.oc-composer textarea', 'Mine alone')
  ada.unmount()
  const { initialWallet: wallet, ...minting } = await testWallet('somebody else')
  const other = person(oracle, {}, oracle.within(oracle.tab({ wallet, ...minting })))
  expect((await field(other)).value).toBe('')
  other.unmount()
  const again = person(oracle)
  const own = await field(again)
  await until(() => own.value === 'Mine alone')
})

it('takes a message and a draft where the storage is full', async () => {
  const model = scriptedModel(['Heard.'])
  await using oracle = await testOracle({ plugins: [], model })
  const full = vi.spyOn(Object.getPrototypeOf(window.localStorage), 'setItem')
  full.mockImplementation(() => {
    throw new DOMException('It is full.', 'QuotaExceededError')
  })
  try {
    const { say, texts, all } = person(oracle)
    await say('Is there room?')
    await until(() => texts('.oc-markdown').includes('Heard.'))
    expect(texts('.oc-said')).toEqual(['Is there room?'])
    expect((all('.oc-composer textarea')[0] as HTMLTextAreaElement).value).toBe('')
    expect(full).toHaveBeenCalled()
    // And it is said what a reload will forget.
    expect(texts('.oc-not-kept')).toEqual([en.notKept])
  } finally {
    full.mockRestore()
  }
})

it('shows a draft that is too long to be kept', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { write, all } = person(oracle)
  await until(() => all('.oc-composer textarea')[0])
  const long = 'word '.repeat(7_000)
  write('.oc-composer textarea', long)
  await until(() => (all('.oc-composer textarea')[0] as HTMLTextAreaElement).value === long)
  expect(JSON.stringify({ ...window.localStorage }).length).toBeLessThan(10_000)
})

it('says of a chat that is not there what a person can read', async () => {
  await using oracle = await testOracle({ plugins: [], model: scriptedModel([]) })
  const { texts, all, say } = person(oracle, { sessionId: randomUUID() })
  await until(() => texts('.oc-error p')[0] === en.chatGone)
  expect(all('.oc-error button')).toEqual([])
  await say('Is anybody there?')
  await until(() => texts('.oc-said').length === 1)
  await until(() => texts('.oc-error p')[0] === en.chatGone)
  expect(all('.oc-error button')).toEqual([])
})
