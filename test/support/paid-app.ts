import { onTestFinished } from 'vitest'
import {
  scriptedModel,
  testApp,
  type ScriptedStep,
  type TestApp,
  type TestAppOptions,
  type TestUser,
} from '#core/testing'
import type { Where } from './each-database.ts'
import { listen, lookedThrough, noteSecrets } from './nothing-kept.ts'
import payments from '../../plugins/payments/index.ts'

/** A price, and credit for two turns. */
export const priced = { PAYMENTS_TURN_PRICE: '5000', PAYMENTS_FIRST_CREDIT: '10000' }

/**
 * An app with a price, whose model answers everything with the same steps. When its test is over, no word of a conversation,
 * mnemonic, signature or key may stand in a table of payments or in what the app logged.
 */
export async function paidApp(
  options: Partial<TestAppOptions> & {
    readonly where?: Where
    readonly steps?: readonly ScriptedStep[]
  } = {},
): Promise<TestApp> {
  const { where = {}, steps = ['Yes.'], env, plugins = [payments], ...rest } = options
  const model = scriptedModel(Array.from({ length: 300 }, (_, i) => steps[i % steps.length]!))
  listen()
  noteSecrets(env)
  // What is to be done last when a test is over is said first: the watcher tells what it saw once the app is closed.
  const watcher = lookedThrough(() => app.log)
  const app = await testApp({
    plugins: [...plugins, watcher],
    model,
    env: {
      NODE_ENV: 'test',
      LOG_LEVEL: 'trace',
      ...priced,
      ...(where.databaseUrl && { DATABASE_URL: where.databaseUrl }),
      ...env,
    },
    ...rest,
  })
  onTestFinished(() => app.close())
  return app
}

/** A session of a user. */
export const session = async (user: TestUser): Promise<string> =>
  (await user.post('/sessions', {})).body.sessionId

/** The account of a user, once nothing of it is set aside any more. */
export async function settledAccount(user: TestUser) {
  for (;;) {
    const { body } = await user.get('/payments/account')
    if (body.held === '0') return body
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Pays what is asked, on the development ledger, as a page does. */
export async function pay(user: TestUser, claims?: readonly string[]) {
  const { address } = (await user.get('/payments/development/account')).body
  const prepared = await user.post('/payments/prepare', { address, ...(claims && { claims }) })
  if (prepared.status !== 200) return { prepared }
  const { messages, memo, paymentId } = prepared.body
  const sent = await user.post('/payments/development/transact', { messages, memo })
  const txHash: string = sent.body.transactionHash
  const settled = await user.post('/payments/settle', { paymentId, txHash })
  return { prepared, sent, settled, txHash, paymentId }
}

/** The charge of a session's only turn, once the turn has ended. */
export async function endedCharge(user: TestUser, sessionId: string) {
  for (;;) {
    const { body } = await user.get(`/payments/charges?session=${sessionId}`)
    const [charge] = body.charges
    if (charge && charge.status !== 'held') return charge
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
