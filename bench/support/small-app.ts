import { pathToFileURL } from 'node:url'

/** What a start cost the process until it listens. */
export interface StartCost {
  /** Milliseconds of user and system CPU. */
  readonly cpu: number
  /** Megabytes. */
  readonly memory: number
}

// Starts an app of one plugin, without jobs and notices, from a built package, and prints what that cost.
const [, , entry = ''] = process.argv
const { createApp, definePlugin } = await import(pathToFileURL(entry).href)
const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls a dice.',
  routes: { 'GET /dice': { auth: 'public', run: () => ({ rolled: 1 }) } },
})
const env = { DATA_DIR: process.env.DATA_DIR, LOG_LEVEL: 'silent' }
const app = await createApp({ plugins: [dice], env })
await app.listen({ port: 0 })
const { user, system } = process.cpuUsage()
const cost: StartCost = { cpu: (user + system) / 1_000, memory: process.memoryUsage().rss / 1e6 }
console.log(JSON.stringify(cost))
process.exit()
