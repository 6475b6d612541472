import { tellUsage, turnApp } from './turn-app.ts'

/** One app of the bench in a process of its own. */
const [model = '', folder = '', visibility, others] = process.argv.slice(2)
const { BENCH_PRICE: price, BENCH_MEMORY: memory } = process.env
const { app, port } = await turnApp({ model, folder, visibility, others, price, memory })
tellUsage([app])
process.send?.({ port, did: app.oracleDid })
