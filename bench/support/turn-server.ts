import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { definePlugin, type AppOptions } from '#core'
import { boot } from '../../core/runtime/app.ts'
import { models } from '../../plugins/models.ts'

/** The runtime's server as in a deployment: runs, journal and checkpoints in a SQLite file that is synced to the disk. */
const [port, folder, visibility = 'always', others = '0'] = process.argv.slice(2)

const weather = definePlugin({
  name: 'sky',
  summary: 'Weather.',
  visibility: visibility as 'always' | 'on-demand',
  // Every turn changes this state, so that every turn writes a checkpoint.
  state: { readings: z.number().default(0) },
  tools: {
    get_weather: {
      description: 'Weather in a city.',
      effect: 'read',
      input: z.object({ city: z.string() }),
      run({ city }, { state }) {
        state.readings++
        return { city, temp_c: 21 }
      },
    },
  },
})

/** Ten plugins with tools that no session has loaded. */
const unloaded = Array.from({ length: others === '0' ? 0 : 10 }, (_, i) =>
  definePlugin({
    name: `other-${i}`,
    summary: 'Something else.',
    visibility: 'on-demand',
    tools: Object.fromEntries(
      Array.from({ length: Number(others) / 10 }, (_, n) => [
        `other_tool_${i}_${n}`,
        {
          description: 'Does something else, with an argument that takes some words to describe.',
          effect: 'read' as const,
          input: z.object({ subject: z.string().describe('What it is done to, in some words.') }),
          run: () => ({}),
        },
      ]),
    ),
  }),
)

/** What the turns of a server cost: `off` is without the plugin that knows of prices. */
const price = process.env.BENCH_PRICE
const payments =
  price === undefined ? [] : [(await import('../../plugins/payments/index.ts')).default]
/** The mode of memory; without it the plugin is not there. */
const mode = process.env.BENCH_MEMORY
const memory = mode === undefined ? [] : [(await import('../../plugins/memory/index.ts')).default]
const priced = {
  PAYMENTS_TURN_PRICE: '5000',
  PAYMENTS_FIRST_CREDIT: '9000000000000',
}

const many = '100000000'
const options: AppOptions = {
  plugins: [weather, ...unloaded, ...payments, ...memory],
  ...(price === 'off' && { features: { payments: false } }),
  env: {
    ...(price === 'on' && priced),
    // Only the turns are measured: what is read for memories is read long after the bench.
    ...(mode !== undefined && { MEMORY_MODE: mode, MEMORY_AFTER_SECONDS: '86400' }),
    DATA_DIR: folder,
    DATABASE_URL: process.env.BENCH_DATABASE_URL || undefined,
    LOG_LEVEL: 'error',
    MODEL: 'openai/m',
    OPENAI_BASE_URL: `http://127.0.0.1:${port}`,
    RATE_LIMIT_PER_MINUTE: many,
    CALLS_PER_MINUTE: many,
    TURNS_AT_ONCE: '1000000',
    TURNS_PER_DAY: '1000000',
    TURNS_AT_ONCE_TOTAL: '1000000',
  },
  log: (line) => console.error(line),
}
const app = await boot(options, { bundled: async () => models })
const address = await app.listen({ port: 0, host: '127.0.0.1' })
process.send?.({ port: address.port, did: app.oracleDid })
process.on('message', async (what) => {
  if (what !== 'cpu') await sleep(50)
  if (what === 'gc') globalThis.gc?.()
  const { user, system } = process.cpuUsage()
  const { heapUsed, external, rss } = process.memoryUsage()
  process.send?.({ cpu: user + system, user, heap: heapUsed + external, rss })
})
process.once('disconnect', () => app.close().finally(() => process.exit()))
