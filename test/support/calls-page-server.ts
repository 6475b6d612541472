import { createApp } from '#core'
import calls from '../../plugins/calls/index.ts'
import { models } from '../../plugins/models.ts'
import playground from '../../plugins/playground/index.ts'

/** A server with a page that calls it, in a process of its own, so that it can be killed while the page is in a call. */
const app = await createApp({ plugins: [calls, playground, ...models] })
await app.listen()
process.once('SIGTERM', () => void app.close().then(() => process.exit(0)))
