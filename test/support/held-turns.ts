import { expect } from 'vitest'
import { z } from 'zod'
import { definePlugin, type ModelRequest, type Turns } from '#core'
import { call as calling, type ScriptedStep } from '#core/testing'
import { asksFirst } from './asks-first.ts'
import { callApp, type CallAppOptions } from './call-app.ts'
import { call } from './call-page.ts'

export const patient = { timeout: 45_000, interval: 20 }

/** A plugin that lets turns begin when a test says so, with a read that ends when it is aborted. */
export function gate() {
  const seen = { admitted: [] as string[], looks: 0, aborted: 0 }
  let own: Turns | undefined
  let opened: PromiseWithResolvers<void> | undefined
  const plugin = definePlugin({
    name: 'gate',
    summary: 'Holds turns.',
    visibility: 'always',
    setup: ({ turns }) => {
      own = turns
    },
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
          if (!signal.aborted)
            await new Promise((resolve) => signal.addEventListener('abort', resolve))
          seen.aborted++
          signal.throwIfAborted()
          return 'seen'
        },
      },
    },
  })
  const close = () => (opened = Promise.withResolvers())
  const open = () => {
    opened?.resolve()
    opened = undefined
  }
  const turns = () => {
    if (!own) throw new Error('The setup did not run.')
    return own
  }
  return { plugin, seen, close, open, turns }
}

/** Whatever was asked last is answered by its own words; "Look" begins to look, "Pay" asks. */
const answer = ({ messages }: ModelRequest): ScriptedStep => {
  const last = messages.at(-1)
  const text = String(last?.content)
  if (last?.role !== 'user') return 'Done with it.'
  if (text.includes('Look')) return calling('look')
  return text.includes('Pay') ? calling('pay') : `To ${text.replace(/\W+$/u, '')}.`
}

/** A call whose turns begin when the test says so. */
export async function beginHeld(options: CallAppOptions = {}) {
  const held = gate()
  const bank = asksFirst()
  const plugins = [held.plugin, bank.plugin, ...(options.plugins ?? [])]
  const made = await callApp(Array(8).fill(answer), { ...options, plugins })
  const { page, callId } = await call(made.user, made.sessionId)
  await expect.poll(() => page.of('ready').length, patient).toBe(1)
  const say = (id: string, text: string) => page.send({ type: 'say', id, text })
  const state = () => page.of('state').at(-1)?.state
  /** Words by the name of their frame, or, with `heard`, by which of the utterances they were. */
  const isHeard = (id: string, how = 'say') =>
    expect
      .poll(() => page.of('caption').some((one) => one.id === `${how}:${id}`), patient)
      .toBe(true)
  const isHeld = (id: string, how = 'say') =>
    expect
      .poll(() => held.seen.admitted.some((one) => one.endsWith(`${how}:${id}`)), patient)
      .toBe(true)
  return { ...made, ...held, bank: bank.seen, page, callId, say, state, isHeard, isHeld }
}

/** Who has said what. */
export const told = async (history: () => Promise<Record<string, any>[]>) =>
  (await history()).map(({ type, content }) => `${type}: ${content}`)
