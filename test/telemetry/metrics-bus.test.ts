import { expect, it, onTestFinished } from 'vitest'
import { testApp } from '#core/testing'
import { onBus } from '../support/bus.ts'
import { flakyWire } from '../support/database.ts'
import { readMetrics } from '../support/prometheus-text.ts'

for (const kind of ['nats', 'redis'] as const)
  await onBus(kind, `a server whose bus dies (${kind})`, ({ databaseUrl, start }) => {
    it('says so in its health and in its metrics, and that the bus is back', async () => {
      const wire = await flakyWire(await start())
      onTestFinished(() => wire.close())
      const app = await testApp({
        plugins: [],
        env: { DATABASE_URL: databaseUrl, BUS_URL: wire.url, OPERATOR_TOKEN: 'mnopqrstuvwx' },
      })
      onTestFinished(() => app.close())
      const told = async () => {
        const headers = { Authorization: 'Bearer mnopqrstuvwx' }
        const text = await (await fetch(`${app.url}/metrics`, { headers })).text()
        const metrics = readMetrics(text)
        const health = (await app.get('/health')).body as {
          listening: string
          bus: { kind: string; isUp: boolean }
        }
        const { listening, bus } = health
        return {
          listening,
          isUp: bus.isUp,
          metric: metrics.value('oracle_bus_up'),
          way: metrics.value('oracle_listening', { way: listening }),
        }
      }
      const there = { listening: 'bus', isUp: true, metric: 1, way: 1 }
      const patience = { timeout: 40_000 }
      await expect.poll(told, patience).toEqual(there)
      await wire.cut()
      const away = { listening: 'direct', isUp: false, metric: 0, way: 1 }
      await expect.poll(told, patience).toEqual(away)
      await wire.restore()
      await expect.poll(told, patience).toEqual(there)
    }, 150_000)
  })
