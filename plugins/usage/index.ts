import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { allQuery, allUsage, ownQuery, ownUsage } from './answers.ts'
import { sweep } from './book.ts'
import { demandTurn } from './budget.ts'
import { Meter } from './meter.ts'
import { migrations } from './tables.ts'

const tokens = () => z.coerce.number().int().min(0).max(1e12).default(0)

export default definePlugin({
  name: 'usage',
  version: '1.0.0',
  summary: 'What each user’s turns cost, by day and model, and daily allowances.',
  tags: ['usage', 'cost', 'budget', 'quota'],
  visibility: 'silent',
  stability: 'beta',
  category: 'core',

  env: {
    USAGE_TOKENS_PER_USER_PER_DAY: tokens().describe(
      'Tokens that one user may use up in a day of UTC; 0: any number',
    ),
    USAGE_COST_PER_USER_PER_DAY: z.coerce
      .number()
      .min(0)
      .max(1_000_000)
      .default(0)
      .describe('US dollars that one user may use up in a day of UTC; 0: any amount'),
    USAGE_TOKENS_PER_TURN: tokens().describe('Tokens that one turn may use up; 0: any number'),
  },

  migrations,

  setup({ env, db, now, log, prices, onClose }) {
    const budgets = {
      tokensPerDay: env.USAGE_TOKENS_PER_USER_PER_DAY,
      costPerDay: env.USAGE_COST_PER_USER_PER_DAY,
      tokensPerTurn: env.USAGE_TOKENS_PER_TURN,
    }
    const unpriced = prices.filter(({ price }) => price === undefined).map(({ id }) => `"${id}"`)
    if (budgets.costPerDay > 0 && unpriced.length > 0)
      throw new RuntimeError(
        'ENV_INVALID',
        `USAGE_COST_PER_USER_PER_DAY is ${budgets.costPerDay}, but nobody knows what ${unpriced.join(', ')} costs.`,
        {
          hint: 'Say it in MODEL_SETTINGS: {"<model>": {"price": {"input": 3, "output": 15}}}, in US dollars for a million tokens.',
        },
      )
    const meter = new Meter({ budgets, db, now, log })
    onClose(() => meter.close())
    return meter
  },

  jobs: {
    sweep: {
      every: '6h',
      run: (_, { db, now }) => sweep(db, now()),
    },
  },

  userData: {
    async *export(did, { db }) {
      const { exportUsage } = await import('./user-data.ts')
      yield* exportUsage(did, db)
    },
    erase: async (did, { db }) => (await import('./user-data.ts')).eraseUsage(did, db),
  },

  onUsage: (call, { self }) => self.hear(call),

  runs: {
    admit: ({ user }, { self }) => self.admit(user.did),
    end: (run, { self, db }) => self.end(db, run),
  },

  middleware: {
    model({ self, spent }, next) {
      demandTurn(self.budgets, (spent?.inputTokens ?? 0) + (spent?.outputTokens ?? 0))
      return next()
    },
  },

  routes: {
    'GET /usage': {
      summary: 'What the caller has used up, by day or model.',
      input: ownQuery,
      output: ownUsage,
      run: (query, { self, user }) => self.own(user.did, query),
    },
    'GET /usage/all': {
      auth: 'operator',
      summary: 'What all users have used up, by user, model or day.',
      input: allQuery,
      output: allUsage,
      run: (query, { self }) => self.all(query),
    },
  },
})
