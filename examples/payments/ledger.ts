import { createApp, definePlugin } from '#core'
import { serveLedger } from '../../plugins/payments/fixtures/grpc-ledger.ts'
import payments from '../../plugins/payments/index.ts'

// npm run example:payments-ledger: the development ledger over gRPC, and the variables with which another server is paid on it.
const node = definePlugin({
  name: 'node',
  summary: 'Serves the development ledger over gRPC.',
  visibility: 'silent',
  requires: [payments],
  async setup({ plugins, oracle, onClose }) {
    const ledger = await plugins.payments.service.development()
    const served = await serveLedger(ledger, Number(process.env.LEDGER_PORT ?? 50_052))
    onClose(() => served.close())
    const { address } = await ledger.accountOf(oracle.did)
    console.log(`\nA ledger listens on ${served.address}. In another terminal:

PAYMENTS_TURN_PRICE=5000 PAYMENTS_FIRST_CREDIT=10000 \\
PAYMENTS_LEDGER=${served.address} PAYMENTS_LEDGER_TLS=off \\
PAYMENTS_ADDRESS=${address} npm start

GET /payments/development/account and POST …/faucet and …/transact of this server are the wallet.\n`)
    return { served }
  },
})

const env = { DATA_DIR: '.data/payments-ledger', PORT: '3010', ...process.env }
const app = createApp({ plugins: [payments, node], env })
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void app.close().then(() => process.exit(0)))
await app.listen()
