import { defineApp } from '#core'
import { bundled } from '../../plugins/index.ts'

// npm run example:payments: the server with a price, and credit for two turns. Everything else is as npm start has it.
const app = defineApp({
  plugins: bundled,
  env: {
    DATA_DIR: '.data/payments',
    PAYMENTS_TURN_PRICE: '5000',
    PAYMENTS_FIRST_CREDIT: '10000',
    ...process.env,
  },
})
await app.listen()
console.log('  Turns cost 0.005 DEV here, and the first two are on credit.\n')
