import { createApp } from 'oracle-runtime'
import bridge from './bridge.ts'

// BRIDGE_SECRET=… BRIDGE_REPLY_URL=http://127.0.0.1:4000/answers node server.ts
await createApp({ plugins: [bridge] }).listen()
