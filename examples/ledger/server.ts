import { descriptorFile, startLedger } from '../../plugins/query-gateway/fixtures/ledger.ts'

// npm run example:ledger: starts a ledger, and prints the variables with which the gateway queries it.
const ledger = await startLedger({ port: Number(process.env.LEDGER_PORT ?? 50_051) })
console.log(`A ledger listens on ${ledger.address}. In another terminal:

GATEWAY_UPSTREAM=${ledger.address} \\
GATEWAY_DESCRIPTORS=${descriptorFile} \\
GATEWAY_LEGACY_PREFIXES=old-ledger \\
npm start

curl http://127.0.0.1:3000/ledger/entity/did:x:entity:1`)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => void ledger.close().then(() => process.exit(0)))
