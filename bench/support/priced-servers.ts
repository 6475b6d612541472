import { join } from 'node:path'
import { tellUsage, turnApp } from './turn-app.ts'

/**
 * Apps that differ by the price of their turns, in one process: what two processes of one program differ by, which is more than
 * a price costs, is the same for all of them. Ten other plugins are there as well, as apps have: the first plugin whose tools
 * are loaded on demand costs more than the others.
 */
const [model = '', folder = '', ...prices] = process.argv.slice(2)
const apps = []
for (const [nth, price] of prices.entries())
  apps.push(await turnApp({ model, folder: join(folder, String(nth)), others: '10', price }))
tellUsage(apps.map(({ app }) => app))
process.send?.({ servers: apps.map(({ app, port }) => ({ port, did: app.oracleDid })) })
