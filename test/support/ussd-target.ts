import { beTarget } from '../../bench/support/target.ts'
import { createApp } from '#core'
import ussd from '../../plugins/ussd/index.ts'

// A gateway in a process of its own that says what is on its heap.
const app = await createApp({
  plugins: [ussd],
  log: () => undefined,
  env: {
    DATA_DIR: process.env.TARGET_DATA_DIR,
    RATE_LIMIT_PER_MINUTE: '1000000000',
    USSD_RATE_LIMIT_PER_MINUTE: '1000000000',
    USSD_SESSION_TTL_SECONDS: process.env.TARGET_TTL_SECONDS,
  },
})
beTarget((await app.listen({ port: 0, host: '127.0.0.1' })).port)
