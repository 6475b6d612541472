import { describe, expect, test } from 'vitest'
import type { AnyRoute } from '../../core/plugin.ts'
import { edge } from '../support/edge.ts'

const open: AnyRoute = { auth: 'public', run: () => 'open' }
const page = 'https://page.example'
const preflight = (origin: string, method = 'POST') => ({
  headers: {
    Origin: origin,
    'Access-Control-Request-Method': method,
    'Access-Control-Request-Headers': 'authorization',
  },
})
const from = (origin: string, more = {}) => ({ headers: { Origin: origin, ...more } })

describe('with CORS_ORIGIN *', () => {
  test('a preflight is answered before anyone is asked who they are', async () => {
    const server = await edge({ 'POST /locked': { run: () => 'secret' } })
    const answer = await server.call('OPTIONS', '/locked', preflight(page))
    expect(answer.status).toBe(204)
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
    expect(answer.headers.get('access-control-allow-credentials')).toBeNull()
    expect(answer.headers.get('access-control-max-age')).toBe('7200')
    const methods = answer.headers.get('access-control-allow-methods')?.split(', ')
    expect(methods).toEqual(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])
    const headers = answer.headers.get('access-control-allow-headers')?.toLowerCase().split(', ')
    for (const header of [
      'authorization',
      'content-type',
      'x-auth-type',
      'x-ucan-delegation',
      'x-request-id',
      'idempotency-key',
      'if-match',
      'if-none-match',
      'last-event-id',
      'accept',
    ])
      expect(headers).toContain(header)
  })

  test('every answer may be read, errors too, with the headers a client needs', async () => {
    const server = await edge({ 'GET /open': open, 'GET /locked': { run: () => 1 } })
    for (const path of ['/open', '/locked', '/nowhere']) {
      const { headers } = await server.call('GET', path, from(page))
      expect(headers.get('access-control-allow-origin')).toBe('*')
      const exposed = headers.get('access-control-expose-headers')?.split(', ')
      for (const name of [
        'X-Request-Id',
        'X-Run-Id',
        'Date',
        'ETag',
        'Location',
        'Retry-After',
        'WWW-Authenticate',
        'Link',
        'Deprecation',
      ])
        expect(exposed).toContain(name)
    }
  })
})

describe('with a list', () => {
  const cors = `${page}, https://other.example/`

  test('only its origins may read, and caches are told that it varies', async () => {
    const server = await edge({ 'GET /open': open }, { cors })
    for (const origin of [page, 'https://other.example']) {
      const { headers } = await server.call('GET', '/open', from(origin))
      expect(headers.get('access-control-allow-origin')).toBe(origin)
      expect(headers.get('vary')).toBe('Origin')
    }
    for (const origin of [
      'https://evil.example',
      'null',
      `${page}.evil.example`,
      'http://page.example',
    ]) {
      const answer = await server.call('GET', '/open', from(origin))
      expect(answer.headers.get('access-control-allow-origin')).toBeNull()
      expect(answer.headers.get('vary')).toBe('Origin')
      const asked = await server.call('OPTIONS', '/open', preflight(origin, 'GET'))
      expect(asked.status).toBe(204)
      expect(asked.headers.get('access-control-allow-methods')).toBeNull()
    }
    const bare = await server.call('GET', '/open')
    expect(bare.headers.get('access-control-allow-origin')).toBeNull()
    expect(bare.headers.get('vary')).toBe('Origin')
  })
})

describe('a route of its own mind', () => {
  const routes = {
    'POST /closed': { ...open, cors: false as const },
    'POST /one': { ...open, cors: [page] },
    'GET /one': open,
    'GET /closed': { ...open, cors: false as const },
  }

  test('is not read by other pages, and refuses what a form of theirs could send', async () => {
    const server = await edge(routes)
    const form = { 'Content-Type': 'application/x-www-form-urlencoded' }
    expect((await server.call('POST', '/closed', from(page, form))).json).toMatchObject({
      statusCode: 403,
      code: 'FORBIDDEN',
    })
    expect((await server.call('POST', '/one', from('https://evil.example'))).status).toBe(403)
    expect((await server.call('POST', '/one', from('null'))).status).toBe(403)
    const allowed = await server.call('POST', '/one', from(page))
    expect(allowed.json).toBe('open')
    expect(allowed.headers.get('access-control-allow-origin')).toBe(page)
    expect((await server.call('POST', '/closed')).json).toBe('open')
  })

  test('refuses what a browser says to come from elsewhere, also where it hides the page', async () => {
    const server = await edge(routes)
    const site = (value: string) => ({ headers: { 'Sec-Fetch-Site': value } })
    for (const value of ['cross-site', 'same-site'])
      expect((await server.call('POST', '/closed', site(value))).status, value).toBe(403)
    for (const value of ['same-origin', 'none'])
      expect((await server.call('POST', '/closed', site(value))).json, value).toBe('open')
    // A link leads to what is read, and gives nothing away.
    expect((await server.call('GET', '/closed', site('cross-site'))).json).toBe('open')
  })

  test('is open to the pages of this server', async () => {
    const server = await edge(routes, { publicUrl: 'https://oracle.example/base' })
    expect((await server.call('POST', '/closed', from(server.url))).json).toBe('open')
    expect((await server.call('POST', '/closed', from('https://oracle.example'))).json).toBe('open')
    expect((await server.call('POST', '/closed', from(`${server.url}0`))).status).toBe(403)
  })

  test('is preflighted by the method that is asked for', async () => {
    const server = await edge(routes)
    const allowed = async (path: string, method: string, origin: string) =>
      (await server.call('OPTIONS', path, preflight(origin, method))).headers.get(
        'access-control-allow-origin',
      )
    expect(await allowed('/closed', 'POST', page)).toBeNull()
    expect(await allowed('/one', 'POST', page)).toBe(page)
    expect(await allowed('/one', 'POST', 'https://evil.example')).toBeNull()
    expect(await allowed('/one', 'GET', 'https://evil.example')).toBe('*')
  })
})
