import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { builtView, definePlugin } from '#core'
import { scriptedModel, testApp } from '../../core/testing/index.ts'

test('a view is served once it is built, at its path alone, and is not sent twice', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'built-view-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'view.js')
  const tolls = definePlugin({
    name: 'tolls',
    summary: 'Says what a crossing costs.',
    web: { '/tolls': builtView('/tolls/view.js', pathToFileURL(file)) },
    views: { tolls: { label: { en: 'Tolls' }, module: '/tolls/view.js' } },
  })
  const app = await testApp({ plugins: [tolls], model: scriptedModel([]) })
  onTestFinished(() => app.close())
  const get = (path: string, init?: RequestInit) => fetch(app.url + path, init)
  expect((await get('/tolls/view.js')).status).toBe(404)
  writeFileSync(file, 'export default () => () => undefined')
  const served = await get('/tolls/view.js')
  expect(served.status).toBe(200)
  expect(served.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
  expect(await served.text()).toBe('export default () => () => undefined')
  const etag = served.headers.get('etag') ?? ''
  const again = await get('/tolls/view.js', { headers: { 'if-none-match': etag } })
  expect([again.status, await again.text()]).toEqual([304, ''])
  const head = await get('/tolls/view.js', { method: 'HEAD' })
  expect([head.status, head.headers.get('etag'), await head.text()]).toEqual([200, etag, ''])
  expect((await get('/tolls')).status).toBe(404)
  expect((await get('/tolls/view.js.map')).status).toBe(404)
  expect((await get('/tolls/view.js', { method: 'POST' })).status).toBeGreaterThan(403)
})

test.each([
  ['br', 'br'],
  ['gzip', 'gzip'],
  ['br;q=0, gzip', 'gzip'],
  ['identity', null],
  ['br;q=0, gzip;q=0', null],
  ['something-else', null],
])('a view for a browser that takes %s is sent as %s', async (takes, coding) => {
  const folder = mkdtempSync(join(tmpdir(), 'built-view-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'view.js')
  const source = `export default () => () => ${JSON.stringify('toll '.repeat(500))}`
  writeFileSync(file, source)
  const tolls = definePlugin({
    name: 'tolls',
    summary: 'Says what a crossing costs.',
    web: { '/tolls': builtView('/tolls/view.js', pathToFileURL(file)) },
  })
  const app = await testApp({ plugins: [tolls], model: scriptedModel([]) })
  onTestFinished(() => app.close())
  const get = (more = {}) =>
    fetch(`${app.url}/tolls/view.js`, { headers: { 'accept-encoding': takes, ...more } })
  const served = await get()
  expect(served.headers.get('content-encoding')).toBe(coding)
  expect(served.headers.get('vary')).toContain('Accept-Encoding')
  expect(Number(served.headers.get('content-length')) < source.length).toBe(coding !== null)
  expect(await served.text()).toBe(source)
  const etag = served.headers.get('etag') ?? ''
  expect(/-(br|gzip)"$/.exec(etag)?.[1] ?? null).toBe(coding)
  expect((await get({ 'if-none-match': etag })).status).toBe(304)
})
