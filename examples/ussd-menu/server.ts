import { createApp } from 'oracle-runtime'
import ussd from 'oracle-runtime/plugins/ussd'
import water from './water.ts'

// node server.ts, then npm run ussd: the menu's entry is number 4.
await createApp({ plugins: [ussd, water] }).listen()
