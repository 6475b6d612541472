import { request } from 'node:http'
import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import playground from './index.ts'

/** The status of a path that is sent unchanged, because fetch would normalise the path. */
const statusOf = (url: string, path: string) =>
  new Promise<number | undefined>((resolve, reject) => {
    request(url, { path }, (response) => {
      response.resume()
      resolve(response.statusCode)
    })
      .on('error', reject)
      .end()
  })

it('is off in production unless it is asked for', async () => {
  const served = async (env: Record<string, string>) => {
    await using app = await testApp({ plugins: [playground], env })
    return (await app.get('/playground/')).status !== 404
  }
  expect(await served({ NODE_ENV: 'production' })).toBe(false)
  expect(await served({ NODE_ENV: 'production', FEATURES: 'playground=on' })).toBe(true)
  expect(await served({})).toBe(true)
})

it('serves its own files and nothing beside them', async () => {
  await using app = await testApp({ plugins: [playground] })
  for (const path of [
    '/playground/../package.json',
    '/playground/..%2fpackage.json',
    '/playground/%2e%2e/index.ts',
    '/playground/assets/..%2f..%2findex.ts',
    '/playground/index.ts',
    '/playground/assets/',
    '/playground/assets/none.js',
    '/playgrounds/',
  ])
    expect([path, await statusOf(app.url, path)]).toEqual([
      path,
      expect.toSatisfy((status) => status === 404 || status === 400),
    ])
})

it('says that it is being built, or is there, and lets nothing from elsewhere run', async () => {
  await using app = await testApp({ plugins: [playground] })
  const { status, headers, body } = await app.get('/playground/')
  expect([200, 503]).toContain(status)
  expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(headers.get('content-security-policy')).toContain("script-src 'self'")
  expect(body).toContain('<title>Playground</title>')
})
