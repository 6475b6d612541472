import { expect, it, onTestFinished } from 'vitest'
import { testApp } from '#core/testing'
import { onBus } from '../support/bus.ts'
import { readMetrics } from '../support/prometheus-text.ts'

for (const kind of ['nats', 'redis'] as const)
  await onBus(kind, `a server whose bus is killed (${kind})`, ({ databaseUrl, start }) => {
    it('says so in its health and in its metrics, and that the bus is back', async () => {
      const bus = await start()
      const app = await testApp({
        plugins: [],
        env: { DATABASE_URL: databaseUrl, BUS_URL: bus.url, OPERATOR_TOKEN: 'mnopqrstuvwx' },
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
        const { listening } = health
        return {
          listening,
          isUp: health.bus.isUp,
          metric: metrics.value('oracle_bus_up'),
          way: metrics.value('oracle_listening', { way: listening }),
        }
      }
      const there = { listening: 'bus', isUp: true, metric: 1, way: 1 }
      const patience = { timeout: 40_000 }
      await expect.poll(told, patience).toEqual(there)
      await bus.kill()
      const away = { listening: 'direct', isUp: false, metric: 0, way: 1 }
      await expect.poll(told, patience).toEqual(away)
      await bus.startAgain()
      await expect.poll(told, patience).toEqual(there)
    }, 150_000)
  })
