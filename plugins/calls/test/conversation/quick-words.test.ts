import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelRequest } from '#core'
import { call as calling, type ScriptedStep } from '#core/testing'
import { callApp, type CallAppOptions } from '../../../../test/support/call-app.ts'
import { call } from '../../../../test/support/call-page.ts'
import { onEachDatabase } from '../../../../test/support/each-database.ts'

const patient = { timeout: 8_000, interval: 20 }

/** A plugin that lets turns begin when a test says so, with a read that ends when it is aborted, and a payment that asks. */
function gate() {
  const seen = { admitted: [] as string[], looks: 0, aborted: 0, paid: 0 }
  let opened: PromiseWithResolvers<void> | undefined
  const plugin = definePlugin({
    name: 'gate',
    summary: 'Holds turns.',
    visibility: 'always',
    runs: {
      async admit(run) {
        seen.admitted.push(run.requestId)
        await opened?.promise
      },
    },
    tools: {
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
      pay: {
        description: 'Pays.',
        effect: 'write',
        approve: true,
        input: z.object({}),
        run: () => {
          seen.paid++
          return 'paid'
        },
      },
    },
  })
  const close = () => (opened = Promise.withResolvers())
  const open = () => {
    opened?.resolve()
    opened = undefined
  }
  return { plugin, seen, close, open }
}

/** Whatever was asked last is answered by its own words; "Look" begins to look, "Pay" asks. */
const answer = ({ messages }: ModelRequest): ScriptedStep => {
  const last = messages.at(-1)
  const text = String(last?.content)
  if (last?.role !== 'user') return 'Done with it.'
  if (text.includes('Look')) return calling('look')
  return text.includes('Pay') ? calling('pay') : `To ${text.replace(/\W+$/u, '')}.`
}

async function begin(options: CallAppOptions = {}) {
  const held = gate()
  const made = await callApp(Array(8).fill(answer), { ...options, plugins: [held.plugin] })
  const { page, callId } = await call(made.user, made.sessionId)
  await expect.poll(() => page.of('ready').length, patient).toBe(1)
  const say = (id: string, text: string) => page.send({ type: 'say', id, text })
  const state = () => page.of('state').at(-1)?.state
  const isHeard = (id: string) =>
    expect.poll(() => page.of('caption').some((one) => one.id === `say:${id}`), patient).toBe(true)
  const isHeld = (id: string) =>
    expect
      .poll(() => held.seen.admitted.some((one) => one.endsWith(`say:${id}`)), patient)
      .toBe(true)
  return { ...made, ...held, page, callId, say, state, isHeard, isHeld }
}

const told = async (history: () => Promise<Record<string, any>[]>) =>
  (await history()).map(({ type, content }) => `${type}: ${content}`)

await onEachDatabase('words that come while a turn begins', (where) => {
  test('end that turn, and are answered; the first words stay', async () => {
    const { page, say, close, open, isHeld, isHeard, history, seen, state } = await begin(where)
    close()
    say('a', 'Look around.')
    await isHeld('a')
    say('b', 'Second words.')
    await isHeard('b')
    open()
    await expect.poll(() => page.said, patient).toBe('To Second words.')
    await expect.poll(state, patient).toBe('listening')
    expect(seen.aborted).toBe(seen.looks)
    const lines = await told(history)
    expect(lines.filter((line) => line.startsWith('human'))).toEqual([
      'human: Look around.',
      'human: Second words.',
    ])
    expect(lines.at(-1)).toBe('ai: To Second words.')
  })

  test('three at once: the last is answered, and no reply of the others is said', async () => {
    const { page, say, history, state } = await begin(where)
    for (const [id, text] of ['One.', 'Look around.', 'Three.'].entries()) say(`${id}`, text)
    await expect.poll(() => page.said.endsWith('To Three.'), patient).toBe(true)
    await expect.poll(state, patient).toBe('listening')
    expect(page.said).toBe('To Three.')
    const lines = await told(history)
    expect(lines.filter((line) => line.startsWith('human')).map((line) => line.slice(7))).toEqual([
      'One.',
      'Look around.',
      'Three.',
    ])
  })
})

test.each(['the frame', 'the word'])('a stop, %s, ends a turn that begins', async (how) => {
  const { page, say, close, open, isHeld, isHeard, history, seen, state } = await begin()
  close()
  say('a', 'Look around.')
  await isHeld('a')
  if (how === 'the frame') page.send({ type: 'stop' })
  else {
    say('b', 'Stop.')
    await isHeard('b')
  }
  await expect.poll(() => page.of('hold').length, patient).toBe(1)
  open()
  await expect.poll(state, patient).toBe('listening')
  expect(seen.aborted).toBe(seen.looks)
  expect(seen.admitted).toHaveLength(1)
  expect(page.said).toBe('')
  expect((await told(history)).filter((line) => line.startsWith('human'))).toHaveLength(1)
  say('c', 'And now?')
  await expect.poll(() => page.said, patient).toBe('To And now.')
})
