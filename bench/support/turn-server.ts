import { quickenImports } from '../../prebuilt/checkout.ts'

/** One app of the bench in a process of its own; with BENCH_PREBUILT its packages are the prebuilt ones of `npm start`. */
if (process.env.BENCH_PREBUILT) await quickenImports()
const { tellUsage, turnApp } = await import('./turn-app.ts')
const [model = '', folder = '', visibility, others] = process.argv.slice(2)
const { BENCH_PRICE: price, BENCH_MEMORY: memory } = process.env
const { app, port } = await turnApp({ model, folder, visibility, others, price, memory })
tellUsage([app])
process.send?.({ port, did: app.oracleDid })
