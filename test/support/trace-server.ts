import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { createApp, definePlugin } from '#core'
import { call, scriptedModel, type ScriptedStep } from '#core/testing'

/** A server that carries out one part of a long turn: the first is killed in `hold`, the second is ended while a person is asked. */
const { PART = '', PIN = '' } = process.env
const usage = { inputTokens: 40, outputTokens: 4 }
const parts: Record<string, readonly ScriptedStep[]> = {
  first: [
    { text: 'Warm.' },
    { delayMs: 400, calls: [call('load_capability', { names: ['well'] })], usage },
    { delayMs: 400, calls: [call('pump', { ms: 900 }), call('dip', { ms: 700, pin: PIN })], usage },
    { delayMs: 400, calls: [call('call_clerk', { task: 'Look it up.' })], usage },
    { delayMs: 400, calls: [call('dip', { ms: 400, pin: PIN })], usage },
    { delayMs: 400, text: 'It is there.', usage },
    { delayMs: 400, calls: [call('hold')], usage },
  ],
  second: [{ delayMs: 600, calls: [call('buy', { what: 'tea', pin: PIN })], usage }],
  third: [{ text: 'Warm.' }, { delayMs: 600, text: 'Done.', usage }],
}

const timed = (description: string, name: string) => ({
  description,
  effect: 'read' as const,
  foreign: false,
  input: z.object({ ms: z.number(), pin: z.string().optional() }),
  redact: ['pin'],
  run: ({ ms }: { ms: number }) => pause(ms, `${name} took ${ms}`),
})
const well = definePlugin({
  name: 'well',
  summary: 'Measures wells.',
  visibility: 'on-demand',
  tools: { pump: timed('Pumps.', 'pump'), dip: timed('Dips.', 'dip') },
  subAgents: { clerk: { description: 'Looks up.', prompt: 'You look up.', tools: ['dip'] } },
})
const shop = definePlugin({
  name: 'shop',
  summary: 'Buys.',
  visibility: 'always',
  tools: {
    hold: {
      description: 'Holds on.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      async run() {
        console.log('the tool holds on')
        await pause(PART === 'first' ? 600_000 : 600)
        return 'held'
      },
    },
    buy: {
      description: 'Buys.',
      approve: true,
      input: z.object({ what: z.string(), pin: z.string() }),
      redact: ['pin'],
      run: ({ what }) => pause(600, `bought ${what}`),
    },
  },
})
const model = scriptedModel(parts[PART] ?? [], { id: 'scripted/one' })
const app = await createApp({ plugins: [well, shop], model })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
