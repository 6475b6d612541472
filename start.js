// What `npm start` runs: the server, translated and compiled once and read from Node's cache from then on. A module
// cannot be in the cache that it turns on itself, and the translator costs more than a tenth of a start, if only for server.ts.
import './scripts/check-node.mjs'
import module from 'node:module'

module.enableCompileCache()
const { prebuildLater, quickenImports } = await import('./prebuilt/checkout.ts')
await quickenImports()
const { default: app } = await import('./server.ts')
await app.listen()
// Node itself writes the cache at the end, and a server that is killed has none. What turns need is imported later.
module.flushCompileCache()
for (const ms of [3_000, 10_000]) setTimeout(module.flushCompileCache, ms).unref()
prebuildLater()
