import { createApp } from 'oracle-runtime'
import ussd from 'oracle-runtime/plugins/ussd'
import water from './water.ts'

// Run node server.ts, then npm run ussd. The menu is entry number 4.
await createApp({ plugins: [ussd, water] }).listen()
