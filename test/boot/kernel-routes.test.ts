import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { expect, it } from 'vitest'
import type { AnyRoute } from '../../core/plugin.ts'
import { grantRouteKeys } from '../../core/runtime/auth/grants/routes.ts'
import { planBoot } from '../../core/runtime/boot/plan.ts'
import { kernelRouteKeys } from '../../core/runtime/kernel-routes.ts'

it('the kernel serves exactly the routes whose keys the boot plan reads', async () => {
  await using app = await testApp({ plugins: [] })
  const { body } = await app.get('/openapi.json')
  const served = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => /^(get|post|put|patch|delete)$/.test(method))
      .map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
  )
  expect(served.sort()).toEqual([...kernelRouteKeys].sort())
  expect(new Set(kernelRouteKeys).size).toBe(kernelRouteKeys.length)
})

it('a key that a room lists and has no route for does not compile', () => {
  const run = () => undefined
  // @ts-expect-error DELETE /grants/:id is missing, and the type of the room asks for it
  const routes: Record<(typeof grantRouteKeys)[number], AnyRoute> = {
    'POST /grants': { run },
    'GET /grants': { run },
  }
  expect(grantRouteKeys.filter((key) => !(key in routes))).toEqual(['DELETE /grants/:id'])
})

it('a plugin that claims a route of the kernel is refused by the plan, before anything is opened', () => {
  const run = () => undefined
  const claims = Object.fromEntries(kernelRouteKeys.map((key) => [key, { auth: 'public', run }]))
  const greedy = definePlugin({
    name: 'greedy',
    summary: 'Claims every route there is.',
    routes: claims as unknown as { 'GET /': { run: typeof run } }, // the keys are known when the test runs
  })
  const input = { features: {}, source: {}, kernelRoutes: kernelRouteKeys }
  const { faults } = planBoot({ ...input, plugins: [greedy] })
  const conflicts = faults.filter(({ code }) => code === 'ROUTE_CONFLICT')
  expect(conflicts.map(({ details }) => (details as { key: string }).key).sort()).toEqual(
    [...kernelRouteKeys].sort(),
  )
})

it('the basic probe and the health record have exactly their documented fields', async () => {
  await using app = await testApp({ plugins: [] })
  expect((await app.get('/')).body).toEqual({
    status: 'ok',
    message: expect.any(String),
    environment: 'development',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  })
  expect((await app.get('/health')).body).toEqual({
    status: 'ok',
    environment: 'development',
    timestamp: expect.stringMatching(/Z$/),
    uptime: expect.any(Number),
    database: 'connected',
    listening: 'direct',
    signingKey: 'loaded',
    plugins: {},
    runtime: expect.stringMatching(/^\d+\.\d+\.\d+$/),
  })
})
