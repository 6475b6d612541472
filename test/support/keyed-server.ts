import { createApp, definePlugin } from '#core'

// A server with one keyed route, which reads its keys again on SIGHUP as `npm start` does.
const keyed = definePlugin({
  name: 'keyed',
  summary: 'Behind a key.',
  routes: { 'GET /keyed': { auth: 'bearer', run: (_, { caller }) => ({ caller }) } },
})
const app = await createApp({ plugins: [keyed] })
process.on('SIGHUP', () => void app.reload().catch((error: Error) => console.error(error.message)))
await app.listen()
