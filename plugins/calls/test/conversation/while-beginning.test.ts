import { expect, test } from 'vitest'
import { beginHeld, patient, told } from '../../../../test/support/held-turns.ts'
import { silent } from '../../../../test/support/silent-log.ts'
import { Runs } from '../../talking/runs.ts'
import { startTurn } from '../../talking/start-turn.ts'

type Held = Awaited<ReturnType<typeof beginHeld>>

/** A call in which the agent waits for a decision. */
async function asked() {
  const made = await beginHeld()
  made.say('a', 'Pay the rent.')
  await expect.poll(() => made.page.of('approval').length, patient).toBe(1)
  await expect.poll(made.state, patient).toBe('waiting')
  const runId = made.page.of('approval')[0]?.runId ?? ''
  return { ...made, decide: () => made.user.post(`/runs/${runId}/resume`, { decision: 'approve' }) }
}

const humans = async ({ history }: Held) =>
  (await told(history)).filter((line) => line.startsWith('human')).map((line) => line.slice(7))

test('a decision while words begin: the result is said, and then the words are answered', async () => {
  const made = await asked()
  const { page, say, isHeard, decide, state, bank } = made
  say('b', 'What is left?')
  await isHeard('b')
  expect((await decide()).status).toBe(200)
  await expect.poll(() => page.of('decided').length, patient).toBe(1)
  await expect.poll(() => page.said.endsWith('To What is left.'), patient).toBe(true)
  await expect.poll(state, patient).toBe('listening')
  expect(page.said).toContain('Done with it.')
  expect(bank.paid).toBe(1)
  expect(await humans(made)).toEqual(['Pay the rent.', 'What is left?'])
}, 120_000)

test('more words while words wait for a decision: all are answered, in their order', async () => {
  const made = await asked()
  const { page, say, isHeard, decide } = made
  say('b', 'What is left?')
  say('c', 'And who says so?')
  await isHeard('c')
  expect((await decide()).status).toBe(200)
  await expect.poll(() => page.said.endsWith('To And who says so.'), patient).toBe(true)
  expect(page.said).toContain('To What is left.')
  expect(await humans(made)).toEqual(['Pay the rent.', 'What is left?', 'And who says so?'])
}, 120_000)

test('who hangs up while a turn begins finds its answer in the chat', async () => {
  const made = await beginHeld()
  const { user, callId, say, close, open, isHeld, history } = made
  close()
  say('a', 'Good evening.')
  await isHeld('a')
  expect((await user.delete(`/calls/${callId}`)).status).toBe(200)
  open()
  const last = async () => (await told(history)).at(-1)
  await expect.poll(last, patient).toBe('ai: To Good evening.')
  expect((await user.get(`/calls/${callId}`)).body.endedBy).toBe('user')
}, 120_000)

test('who says more and hangs up at once: the words that came last are answered in the chat', async () => {
  const made = await beginHeld()
  const { user, callId, say, close, open, isHeld, isHeard, history } = made
  close()
  say('a', 'Look around.')
  await isHeld('a')
  say('b', 'Good evening.')
  await isHeard('b')
  expect((await user.delete(`/calls/${callId}`)).status).toBe(200)
  open()
  const last = async () => (await told(history)).at(-1)
  await expect.poll(last, patient).toBe('ai: To Good evening.')
  expect(await humans(made)).toEqual(['Look around.', 'Good evening.'])
}, 120_000)

test('a run that the call has not heard of ends for words that wait for it', async () => {
  const made = await beginHeld()
  const { user, sessionId, turns, seen } = made
  const did = { did: user.did }
  const other = turns().start({ user: did, session: sessionId, message: 'Look around.' })
  await expect.poll(() => seen.looks, patient).toBe(1)
  const runs = new Runs()
  const where = { user: did, session: sessionId, chars: 0, finishWrites: true }
  await startTurn({
    options: {
      ...{ turns: turns(), log: silent, hearing: undefined, hearingName: 'typed' },
      ...{ voice: undefined, voiceName: 'none', silenceMs: 600, idleMs: 60_000 },
      call: { id: 'a-call', did: user.did, sessionId, type: 'audio' },
      ...{ tell: () => undefined, onHeard: () => undefined, onEnd: () => undefined },
    },
    ...{ runs, beginning: runs.begin('a-call:words'), text: 'Good evening.' },
    ...{ before: Promise.resolve(), isPatient: false, signal: new AbortController().signal },
    end: ({ id }) => turns().cut({ ...where, runId: id }),
  })
  expect((await other.ended).status).toBe('aborted')
  await expect
    .poll(async () => (await told(made.history)).at(-1), patient)
    .toBe('ai: To Good evening.')
}, 120_000)
