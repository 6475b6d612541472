import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelRequest, type Turns } from '#core'
import { call as calling, type ScriptedStep } from '#core/testing'
import { callApp, type CallAppOptions } from '../../../../test/support/call-app.ts'
import { beeps } from '../../../../test/support/calling-voice.ts'
import { call, type Page } from '../../../../test/support/call-page.ts'
import { onEachDatabase, onPostgres } from '../../../../test/support/each-database.ts'

const patient = { timeout: 45_000, interval: 20 }
/** Sixty sentences of five words; the words of a sentence carry its number. */
const long = Array.from(
  { length: 60 },
  (_, i) => `Word${i}a word${i}b word${i}c word${i}d end${i}.`,
)
const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean).length

const textOf = ({ bytes }: { readonly bytes: Uint8Array }) => Buffer.from(bytes).toString()

/** Waits until a page has heard so many words. */
const hasHeard = (page: Page, words: number) =>
  expect.poll(() => page.beeps, patient).toBeGreaterThanOrEqual(words)

/** Waits until a second of sound has come in which nothing is heard. */
async function isSilent(page: Page): Promise<void> {
  const from = page.levels.length
  const isQuiet = () => {
    const last = page.levels.slice(Math.max(from, page.levels.length - 50))
    return last.length === 50 && last.every(({ peak }) => peak < 500)
  }
  await expect.poll(isQuiet, patient).toBe(true)
}

/** A plugin with a write and a read that a test lets go on. */
function slowTools() {
  const paying = Promise.withResolvers<void>()
  const paid = Promise.withResolvers<void>()
  const seen = { begun: 0, ended: 0, looks: 0, aborted: 0 }
  let own: Turns | undefined
  const plugin = definePlugin({
    name: 'slow',
    summary: 'Slow tools.',
    visibility: 'always',
    setup: ({ turns }) => {
      own = turns
    },
    tools: {
      pay: {
        description: 'Pays.',
        effect: 'write',
        approve: false,
        input: z.object({}),
        run: async (_, { signal }) => {
          seen.begun++
          signal.addEventListener('abort', () => seen.aborted++)
          paying.resolve()
          await paid.promise
          seen.ended++
          return 'paid'
        },
      },
      look: {
        description: 'Looks.',
        effect: 'read',
        foreign: false,
        input: z.object({}),
        run: async (_, { signal }) => {
          seen.looks++
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          seen.aborted++
          signal.throwIfAborted()
          return 'seen'
        },
      },
    },
  })
  return {
    ...{ plugin, seen, paying: paying.promise, pay: paid.resolve },
    get turns() {
      if (!own) throw new Error('The setup did not run.')
      return own
    },
  }
}

async function begin(steps: readonly ScriptedStep[], options: CallAppOptions = {}) {
  const made = await callApp(steps, options)
  const { page, callId } = await call(made.user, made.sessionId)
  await expect.poll(() => page.of('ready').length, patient).toBe(1)
  const type = (id: string, text: string) => page.send({ type: 'say', id, text })
  return { ...made, page, callId, type }
}

await onEachDatabase('a reply that somebody speaks over', (where) => {
  test('ends at a word that was heard: in tables, in replays and in what the model reads next', async () => {
    const { page, type, history, model, user } = await begin([long.join(' '), 'Good.'], where)
    type('a', 'Tell me everything.')
    await hasHeard(page, 8)
    page.send({ type: 'stop' })
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    // Whoever looks once the agent listens finds the reply ended.
    const [, reply] = await history()
    await isSilent(page)
    const heard = page.beeps
    expect(reply).toMatchObject({ cut: true, isComplete: false })
    expect(long.join(' ').startsWith(reply?.content)).toBe(true)
    expect(Math.abs(wordsOf(reply?.content) - heard)).toBeLessThanOrEqual(2)
    type('b', 'And now?')
    await expect.poll(() => page.said.endsWith('Good.'), patient).toBe(true)
    const asked = JSON.stringify(model.requests.at(-1)?.messages)
    expect(asked).toContain(`${reply?.content} [interrupted here by the user]`)
    const [{ run } = {}] = await history()
    const replay = textOf(await user.get(`/runs/${run.runId}`))
    const kept = textOf(await user.get('/me/export'))
    expect(replay).toContain('Word0a')
    expect(kept).toContain('Word0a')
    for (const text of [asked, replay, kept, JSON.stringify(await history())])
      for (const unheard of ['end50', 'Word59a', `end${Math.ceil(heard / 5) + 1}.`])
        expect(text).not.toContain(unheard)
  })

  test('a write under way ends, once, and the words become the next turn', async () => {
    const tools = slowTools()
    // Where the stop comes after the end of the tool, the model is asked what to say of it. That is not heard.
    const answer = ({ messages }: ModelRequest) =>
      messages.at(-1)?.role === 'user' ? 'It is paid, you asked.' : 'Never heard.'
    const { page, type, history } = await begin(
      [{ text: 'I pay now.', calls: [{ call: 'pay', args: {} }] }, answer, answer],
      { ...where, plugins: [tools.plugin] },
    )
    type('a', 'Pay the rent.')
    await tools.paying
    type('b', 'And what is left?')
    // The words are heard, and wait.
    await expect.poll(() => page.of('caption').some(({ id }) => id === 'say:b'), patient).toBe(true)
    await isSilent(page)
    expect(tools.seen).toMatchObject({ begun: 1, ended: 0, aborted: 0 })
    tools.pay()
    await expect.poll(() => page.said.endsWith('It is paid, you asked.'), patient).toBe(true)
    expect(tools.seen).toMatchObject({ begun: 1, ended: 1 })
    const told = (await history()).map(({ content }) => content)
    expect(told.at(0)).toBe('Pay the rent.')
    expect(told.slice(-2)).toEqual(['And what is left?', 'It is paid, you asked.'])
    expect(JSON.stringify(await history())).toContain('"paid"')
    expect(JSON.stringify(await history())).not.toContain('Never heard')
  })
})

test('a read under way is aborted, and the new words are answered', async () => {
  const tools = slowTools()
  const { page, type } = await begin([calling('look'), 'Here I am.'], { plugins: [tools.plugin] })
  type('a', 'Look around.')
  await expect.poll(() => tools.seen.looks, patient).toBe(1)
  type('b', 'Are you there?')
  await expect.poll(() => page.said.endsWith('Here I am.'), patient).toBe(true)
  expect(tools.seen).toMatchObject({ looks: 1, aborted: 1 })
})

test('a voice that is still making the sentence falls silent for good, and the words are counted right', async () => {
  const { page, type, history } = await begin([long.join(' '), 'Good.'], {
    env: { CALLS_VOICE_COMMAND: beeps('--live') },
  })
  type('a', 'Tell me everything.')
  await hasHeard(page, 7)
  page.send({ type: 'stop' })
  page.send({ type: 'stop' })
  await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
  await isSilent(page)
  const heard = page.beeps
  const [, reply] = await history()
  expect(Math.abs(wordsOf(reply?.content) - heard)).toBeLessThanOrEqual(2)
  type('b', 'And now?')
  await expect.poll(() => page.beeps, patient).toBe(heard + 1)
})

test('“stop”, recognized in parts, stops the agent and is no question', async () => {
  const { page, type, model } = await begin([long.join(' '), 'Good.'])
  type('a', 'Tell me everything.')
  await hasHeard(page, 3)
  page.send({ type: 'partial', text: 'be' })
  page.send({ type: 'partial', text: 'be quiet' })
  page.send({ type: 'say', id: 'b', text: 'Be quiet.', by: 'recognized' })
  await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
  await isSilent(page)
  expect(model.requests).toHaveLength(1)
  type('c', 'Stop')
  await expect.poll(() => page.said.endsWith('Good.'), patient).toBe(true)
})

await onPostgres('a reply of a run that another replica carries', (where) => {
  test('is spoken here, and is cut where it was heard', async () => {
    const [there, here] = [slowTools(), slowTools()]
    const other = await callApp([{ text: [long.join(' ')] }], { ...where, plugins: [there.plugin] })
    const { page, user, sessionId, history } = await begin([], { ...where, plugins: [here.plugin] })
    const did = { did: user.did }
    const turn = there.turns.start({ user: did, session: sessionId, message: 'Tell me all.' })
    onTestFinished(() => void turn.ended.catch(() => undefined))
    await turn.begun
    await hasHeard(page, 6)
    page.send({ type: 'stop' })
    await expect.poll(() => page.of('state').at(-1)?.state, patient).toBe('listening')
    const [, reply] = await history()
    await isSilent(page)
    expect(reply).toMatchObject({ cut: true })
    expect(Math.abs(wordsOf(reply?.content) - page.beeps)).toBeLessThanOrEqual(2)
    expect(other.model.requests).toHaveLength(1)
  })
})
