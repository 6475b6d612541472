import { readdir } from 'node:fs/promises'
import { request, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { beforeAll, expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { builtPage } from '../../test/support/built-page.ts'
import playground from './index.ts'

beforeAll(() => builtPage(), 90_000)

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

it('sends its files compressed to whoever takes that, each way with an ETag and a length of its own', async () => {
  await using app = await testApp({ plugins: [playground] })
  const scripts = await readdir(new URL('./built/assets/', import.meta.url))
  const script = scripts.find(
    (name) => name.startsWith('client-') && scripts.includes(`${name}.br`),
  )
  const ask = async (accepted: string | undefined, more: Record<string, string> = {}) => {
    const headers = { ...(accepted !== undefined && { 'accept-encoding': accepted }), ...more }
    const answer = await new Promise<IncomingMessage>((resolve, reject) =>
      request(app.url, { path: `/playground/assets/${script}`, headers }, resolve)
        .on('error', reject)
        .end(),
    )
    const body = await buffer(answer)
    const { vary, etag = '', 'content-length': length } = answer.headers
    const coding = answer.headers['content-encoding']
    return { status: answer.statusCode, coding, vary, etag, length: Number(length), body }
  }
  const plain = await ask(undefined)
  expect(plain).toMatchObject({ status: 200, coding: undefined, length: plain.body.length })
  const expected = {
    br: 'br',
    gzip: 'gzip',
    'gzip, deflate, br': 'br',
    'br;q=0.5, gzip': 'gzip',
    'br;q=0, gzip;q=0': undefined,
    '*;q=0': undefined,
    '*': 'br',
    'br;q=0.1, identity': undefined,
    'sdch, x-unknown': undefined,
    identity: undefined,
  }
  const opened = { br: brotliDecompressSync, gzip: gunzipSync }
  const etags = new Set<string>()
  for (const [accepted, coding] of Object.entries(expected)) {
    const answer = await ask(accepted)
    expect([accepted, answer.coding]).toEqual([accepted, coding])
    expect(answer.vary).toMatch(/accept-encoding/i)
    expect(answer.length).toBe(answer.body.length)
    const open = coding && opened[coding as keyof typeof opened]
    expect((open ? open(answer.body) : answer.body).equals(plain.body)).toBe(true)
    if (coding) expect(answer.length).toBeLessThan(plain.length / 2)
    etags.add(answer.etag)
    const again = await ask(accepted, { 'if-none-match': answer.etag })
    expect([accepted, again.status, again.body.length]).toEqual([accepted, 304, 0])
    expect(again.vary).toMatch(/accept-encoding/i)
  }
  expect(etags.size).toBe(3)
}, 90_000)
