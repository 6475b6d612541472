import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { kernelRouteKeys } from '../../core/runtime/boot/kernel-routes.ts'

it('the kernel’s routes are exactly those that boot guards against plugins', async () => {
  await using app = await testApp({ plugins: [] })
  const { body } = await app.get('/openapi.json')
  const served = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods)
      .filter((method) => /^(get|post|put|patch|delete)$/.test(method))
      .map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
  )
  expect(served.sort()).toEqual([...kernelRouteKeys].sort())
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
    signingKey: 'loaded',
    plugins: {},
    runtime: expect.stringMatching(/^\d+\.\d+\.\d+$/),
  })
})
