import { expect, test } from 'vitest'
import { callApp } from '../../../test/support/call-app.ts'
import { call } from '../../../test/support/call-page.ts'

const patient = { timeout: 45_000, interval: 50 }
const long = Array.from({ length: 40 }, (_, i) => `This is sentence ${i + 1}.`).join(' ')

test('what calls do is counted for the operator, in figures and in a sentence, without a name', async () => {
  const { app, user, sessionId } = await callApp([long, 'Good.'], {
    env: { OPERATOR_TOKEN: 'the-token-of-the-operator' },
  })
  const operator = { headers: { authorization: 'Bearer the-token-of-the-operator' } }
  const metrics = async () => String((await app.get('/metrics', operator)).body)
  const figure = async (name: string) =>
    Number(new RegExp(`^\\S*${name} (\\S+)$`, 'm').exec(await metrics())?.[1] ?? Number.NaN)
  const note = async () =>
    JSON.stringify((await app.get('/health', operator)).body).match(
      /Calls since the start[^"]*/,
    )?.[0]
  expect(await note()).toBeUndefined()

  const { page, callId } = await call(user, sessionId)
  await expect.poll(() => figure('calls_under_way'), patient).toBe(1)
  expect(await note()).toMatch(
    /^Calls since the start: 1, of them under way: 1; 0 seconds of those that ended, set up in \d+ ms \(p50\); /,
  )
  page.send({ type: 'say', id: 'a', text: 'Tell me everything.' })
  await expect.poll(() => page.beeps, patient).toBeGreaterThan(3)
  page.send({ type: 'say', id: 'b', text: 'And now?' })
  await expect.poll(() => page.said.endsWith('Good.'), patient).toBe(true)
  await user.delete(`/calls/${callId}`)
  await expect.poll(() => figure('calls_under_way'), patient).toBe(0)
  expect(await figure('calls_begun_total{type="audio"}')).toBe(1)
  expect(await figure('calls_ended_total{by="user"}')).toBe(1)
  expect(await figure('calls_seconds_total')).toBeGreaterThan(0)
  expect(await figure('calls_utterances_total')).toBe(2)
  expect(await figure('calls_interruptions_total')).toBe(1)
  expect(await figure('calls_set_up_seconds_count')).toBe(1)
  expect(await figure('calls_late_frames_total')).not.toBeLessThan(0)
  expect(await note()).toMatch(
    /under way: 0; [1-9]\d* seconds of those that ended, .*interruptions: 1; late frames: \d+\.$/,
  )
  for (const text of [await metrics(), await note()])
    for (const secret of [user.did, callId, sessionId, 'And now?'])
      expect(text).not.toContain(secret)
})
