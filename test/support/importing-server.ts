import { registerHooks } from 'node:module'

/**
 * Boots an app with payments, lets a user take a turn and then look at the account on the ledger, and prints before and after
 * that which modules were loaded, each time as one line of JSON.
 */
const loaded = new Set<string>()
registerHooks({
  load(url, context, next) {
    loaded.add(url)
    return next(url, context)
  },
})

const { testApp, scriptedModel } = await import('../../core/testing/index.ts')
const { default: payments } = await import('../../plugins/payments/index.ts')
const app = await testApp({
  plugins: [payments],
  model: scriptedModel(['Yes.']),
  env: JSON.parse(process.argv[2] ?? '{}') as Record<string, string>,
})
const user = await app.user()
const said = await user.say('Hello')
if (said.status !== 'finished') throw new Error(`The turn is ${said.status}.`)
// Its end is billed, and the first look for old rows and open payments is over, too.
while ((await user.get('/payments/account')).body.held !== '0');
console.log(JSON.stringify([...loaded]))
await user.get('/payments/development/account')
console.log(JSON.stringify([...loaded]))
await app.close()
