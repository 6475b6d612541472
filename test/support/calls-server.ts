import { createApp } from '#core'
import calls from '../../plugins/calls/index.ts'
import { models } from '../../plugins/models.ts'

/** A server that can be called, in a process of its own, so that it can be killed in the middle of a sentence. */
const app = await createApp({ plugins: [calls, ...models] })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
