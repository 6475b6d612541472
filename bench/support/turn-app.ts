import { z } from 'zod'
import { definePlugin, type AppOptions } from '#core'
import { boot } from '../../core/runtime/app.ts'
import { models } from '../../plugins/models.ts'

/** What an app of the bench is. */
export interface TurnAppOptions {
  /** The port of the endpoint that is the model. */
  readonly model: string
  /** Where the app keeps its data. */
  readonly folder: string
  readonly visibility?: string
  /** How many tools there are that no session has loaded, in ten plugins. */
  readonly others?: string
  /** Whether turns cost something: `off` is without the plugin that knows of prices, and undefined has no such plugin. */
  readonly price?: string | undefined
  /** The mode of memory; without it the plugin is not there. */
  readonly memory?: string | undefined
}

type App = Awaited<ReturnType<typeof boot>>

const priced = {
  PAYMENTS_TURN_PRICE: '5000',
  PAYMENTS_FIRST_CREDIT: '9000000000000',
}
const many = '100000000'

/** Boots the runtime as in a deployment: runs, journal and checkpoints in a SQLite file that is synced to the disk. */
export async function turnApp(options: TurnAppOptions): Promise<{ app: App; port: number }> {
  const { model, folder, visibility = 'always', others = '0', price, memory } = options
  const settings: AppOptions = {
    plugins: [
      weather(visibility as 'always' | 'on-demand'),
      ...unloaded(Number(others)),
      ...(price === undefined ? [] : [(await import('../../plugins/payments/index.ts')).default]),
      ...(memory === undefined ? [] : [(await import('../../plugins/memory/index.ts')).default]),
    ],
    ...(price === 'off' && { features: { payments: false } }),
    env: {
      ...(price === 'on' && priced),
      // Only the turns are measured: what is read for memories is read long after the bench.
      ...(memory !== undefined && { MEMORY_MODE: memory, MEMORY_AFTER_SECONDS: '86400' }),
      DATA_DIR: folder,
      DATABASE_URL: process.env.BENCH_DATABASE_URL || undefined,
      LOG_LEVEL: 'error',
      MODEL: 'openai/m',
      OPENAI_BASE_URL: `http://127.0.0.1:${model}`,
      RATE_LIMIT_PER_MINUTE: many,
      CALLS_PER_MINUTE: many,
      TURNS_AT_ONCE: '1000000',
      TURNS_PER_DAY: '1000000',
      TURNS_AT_ONCE_TOTAL: '1000000',
      STREAMS_PER_ADDRESS: '1000000',
    },
    log: (line) => console.error(line),
  }
  const app = await boot(settings, { bundled: async () => models })
  const { port } = await app.listen({ port: 0, host: '127.0.0.1' })
  return { app, port }
}

const weather = (visibility: 'always' | 'on-demand') =>
  definePlugin({
    name: 'sky',
    summary: 'Weather.',
    visibility,
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
const unloaded = (tools: number) =>
  Array.from({ length: tools === 0 ? 0 : 10 }, (_, i) =>
    definePlugin({
      name: `other-${i}`,
      summary: 'Something else.',
      visibility: 'on-demand',
      tools: Object.fromEntries(
        Array.from({ length: tools / 10 }, (_, n) => [
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

/** Answers each message with what the process has used so far, and ends the apps when nobody measures any more. */
export function tellUsage(apps: readonly App[]): void {
  process.on('message', async (what) => {
    if (what !== 'cpu') await new Promise((resolve) => setTimeout(resolve, 50))
    if (what === 'gc') globalThis.gc?.()
    const { user, system } = process.cpuUsage()
    const { heapUsed, external, rss } = process.memoryUsage()
    process.send?.({ cpu: user + system, user, heap: heapUsed + external, rss })
  })
  process.once('disconnect', () =>
    Promise.all(apps.map((app) => app.close())).finally(() => process.exit()),
  )
}
