// What `npm start` runs: the server, translated and compiled once and read from Node's cache from then on. A module
// cannot be in the cache that it turns on itself, and the translator costs more than a tenth of a start, if only for server.ts.
import { enableCompileCache } from 'node:module'

enableCompileCache()
const { prebuildLater, quickenImports } = await import('./prebuilt/checkout.ts')
quickenImports()
const { default: app } = await import('./server.ts')
await app.listen()
prebuildLater()
