import { z } from 'zod'
import { createApp, definePlugin } from '../../core/index.ts'
import { call, scriptedModel } from '../../core/testing/index.ts'
import payments from '../../plugins/payments/index.ts'

/** What an app with payments is told on its command line. */
export interface CollectingServerSettings {
  readonly databaseUrl?: string
  readonly dataDir?: string
  /** host:port of the node of the ledger. */
  readonly ledger: string
  readonly env?: Readonly<Record<string, string>>
  /** Whether the model falls silent after its first step. */
  readonly stands?: boolean
  /** Where the process ends itself, around the transaction in which payments hear of the end of a turn. */
  readonly dies?: EndMoment
}

/** The moments around the transaction that bills a turn and writes what the oracle has to send for it. */
export const endMoments = [
  'before its turn is billed',
  'when its turn is billed, before that commits',
  'when that has committed, before anything is sent',
] as const
export type EndMoment = (typeof endMoments)[number]

const die = () => process.kill(process.pid, 'SIGKILL')

/** The plugin of payments, in a process that ends at a moment. */
function dying(moment: EndMoment | undefined): typeof payments {
  const { runs, jobs } = payments.definition
  const send = jobs?.send
  if (moment === undefined) return payments
  if (typeof runs !== 'function' || !send) throw new Error('Payments neither bill nor send.')
  const definition: typeof payments.definition = {
    ...payments.definition,
    runs: (boot) => {
      const own = runs(boot)
      if (!own) return undefined
      return {
        ...own,
        end: async (run, ctx) => {
          if (moment === 'before its turn is billed') die()
          await own.end?.(run, ctx)
          if (moment === 'when its turn is billed, before that commits') die()
        },
      }
    },
    // The job is asked for in the same transaction, so it runs once that has committed.
    jobs: { ...jobs, send: { ...send, run: () => void die() } },
  }
  return { ...payments, definition }
}

/** What the model counts for each of the two steps of a turn. */
export const usageOfStep = { inputTokens: 100, outputTokens: 10 }

const bell = definePlugin({
  name: 'bell',
  summary: 'Rings.',
  visibility: 'always',
  tools: {
    ring: { description: 'Rings.', effect: 'read', input: z.object({}), run: () => 'Rung.' },
  },
})

if (process.argv[1] === import.meta.filename) {
  const settings = JSON.parse(process.argv[2] ?? '{}') as CollectingServerSettings
  const { databaseUrl, dataDir, ledger, env, stands, dies } = settings
  const first = { calls: [call('ring', {})], usage: usageOfStep }
  const last = { text: 'Rung.', usage: usageOfStep }
  const silence = { text: 'Late.', delayMs: 3_600_000 }
  // What a turn has done already is not asked of the model again: the model that follows has its last step alone.
  const steps = stands ? [first, silence] : env?.TAKES_OVER ? [last] : [first, last, first, last]
  const app = createApp({
    plugins: [dying(dies), bell],
    model: scriptedModel(steps),
    env: {
      NODE_ENV: 'test',
      LOG_LEVEL: 'silent',
      DATA_DIR: dataDir,
      DATABASE_URL: databaseUrl,
      RUN_LEASE_MS: '2000',
      PAYMENTS_LEDGER: ledger,
      PAYMENTS_LEDGER_TLS: 'off',
      ...env,
    },
  })
  const { url } = await app.listen({ port: 0, host: '127.0.0.1', signals: false })
  console.log(url)
}
