import { expect, test } from 'vitest'
import type { ScriptedStep } from '#core/testing'
import { call as calling } from '#core/testing'
import { asksFirst } from '../../../../test/support/asks-first.ts'
import { callApp } from '../../../../test/support/call-app.ts'
import { call, type Page } from '../../../../test/support/call-page.ts'

const patient = { timeout: 45_000, interval: 20 }
const story = `Here it begins. ${'This sentence goes on. '.repeat(12)}And here it ends.`
const spokenTo = (page: Page) => page.of('state').at(-1)?.state

/** A call whose page says something, and the way to call again in its place. */
async function talking(steps: readonly ScriptedStep[]) {
  const { plugin, seen } = asksFirst()
  const made = await callApp(steps, { plugins: [plugin] })
  const { user, sessionId } = made
  const { page, callId } = await call(user, sessionId)
  const again = () => call(user, sessionId, { replaces: callId })
  const say = (text: string) => page.send({ type: 'say', id: text, text })
  /** A page that has gone, and whose call has ended. */
  const vanished = async () => {
    page.vanish()
    const endedBy = async () => (await user.get(`/calls/${callId}`)).body.endedBy
    await expect.poll(endedBy, patient).toBe('lost')
  }
  return { ...made, seen, page, callId, say, again, vanished }
}

test('replies that stood behind the one that was being said are said next, each once', async () => {
  const { user, sessionId, page, say, again } = await talking([story, 'To the chat.', 'And this.'])
  say('Tell me.')
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(6)
  await user.say('Hello', { sessionId })
  await user.say('And?', { sessionId })
  await expect.poll(() => page.said, patient).toBe(`${story}To the chat.And this.`)
  const next = await again()
  await expect.poll(() => next.page.said.endsWith('To the chat.And this.'), patient).toBe(true)
  expect(next.page.said).toContain('And here it ends.To the chat.')
  expect(next.page.said).not.toContain('Here it begins')
  await expect.poll(() => spokenTo(next.page), patient).toBe('listening')
  expect(next.page.said.match(/To the chat/g)).toHaveLength(1)
})

test('what is answered in the chat while the page is away is said when it is back', async () => {
  const { user, sessionId, page, say, again, vanished } = await talking(['Hello.', 'Meanwhile.'])
  say('Good evening.')
  await expect.poll(() => spokenTo(page), patient).toBe('listening')
  await expect.poll(() => page.beeps, patient).toBe(1)
  await vanished()
  await user.say('What else?', { sessionId })
  const next = await again()
  await expect.poll(() => next.page.said, patient).toBe('Meanwhile.')
  await expect.poll(() => next.page.beeps, patient).toBe(1)
})

test('what was heard whole is not said again, nor that a turn had failed', async () => {
  const { page, say, again } = await talking(['Hello.', new Error('refused'), 'Better.'])
  say('Good evening.')
  await expect.poll(() => page.said, patient).toBe('Hello.')
  await expect.poll(() => spokenTo(page), patient).toBe('listening')
  say('And now?')
  await expect.poll(() => page.of('notice').length, patient).toBe(1)
  await expect.poll(() => spokenTo(page), patient).toBe('listening')
  const next = await again()
  await expect.poll(() => spokenTo(next.page), patient).toBe('listening')
  next.page.send({ type: 'say', id: 'b', text: 'Again' })
  await expect.poll(() => next.page.said, patient).toBe('Better.')
  expect(next.page.of('notice')).toEqual([])
})

test('a question that waits is asked again, and its decision is heard', async () => {
  const { user, page, say, again, seen } = await talking(['Hello.', calling('pay'), 'It is paid.'])
  say('Good evening.')
  await expect.poll(() => page.said, patient).toBe('Hello.')
  await expect.poll(() => spokenTo(page), patient).toBe('listening')
  say('Pay the rent.')
  await expect.poll(() => spokenTo(page), patient).toBe('waiting')
  const next = await again()
  await expect.poll(() => next.page.of('approval').length, patient).toBe(1)
  await expect.poll(() => spokenTo(next.page), patient).toBe('waiting')
  const runId = next.page.of('approval')[0]?.runId ?? ''
  expect((await user.post(`/runs/${runId}/resume`, { decision: 'approve' })).status).toBe(200)
  await expect.poll(() => next.page.said.endsWith('It is paid.'), patient).toBe(true)
  expect([next.page.of('approval').length, seen.paid]).toEqual([1, 1])
})

test.each(['approve', 'stop'])(
  'a question that ended while the page was away is not asked again: %s',
  async (how) => {
    const { user, sessionId, page, say, again, vanished } = await talking([
      calling('pay'),
      'It is done.',
    ])
    say('Pay the rent.')
    await expect.poll(() => spokenTo(page), patient).toBe('waiting')
    const runId = page.of('approval')[0]?.runId ?? ''
    await vanished()
    if (how === 'approve') await user.post(`/runs/${runId}/resume`, { decision: 'approve' })
    else await user.post('/messages/abort', { sessionId })
    const next = await again()
    const said = how === 'approve' ? 'It is done.' : ''
    await expect.poll(() => next.page.said, patient).toBe(said)
    await expect.poll(() => spokenTo(next.page), patient).toBe('listening')
    expect(next.page.of('approval')).toEqual([])
    if (how === 'approve') return
    next.page.send({ type: 'say', id: 'b', text: 'Hello' })
    await expect.poll(() => next.page.said, patient).toBe('It is done.')
  },
)
