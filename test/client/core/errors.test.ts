import { expect, it } from 'vitest'
import { testApp } from '#core/testing'
import { ask } from '../../../client/core/request.ts'
import { errorOf, OracleError } from '../../../client/core/error.ts'

const thrownBy = (promise: Promise<unknown>) => promise.catch((error: unknown) => error)

it('reads good answers, and turns error answers into one class', async () => {
  await using app = await testApp({ plugins: [] })
  expect(await (await ask(`${app.url}/health`)).json()).toMatchObject({ status: 'ok' })
  const error = await thrownBy(ask(`${app.url}/nowhere`))
  expect(error).toBeInstanceOf(OracleError)
  expect(error).toMatchObject({
    code: 'not_found',
    status: 404,
    serverCode: 'NOT_FOUND',
    requestId: expect.stringMatching(/.{8}/),
  })
})

it('a page that is not JSON is an error that says so', async () => {
  const response = new Response('<html>', { status: 502, headers: { 'retry-after': '3' } })
  expect(await errorOf(response)).toMatchObject({
    code: 'server',
    status: 502,
    retryAfterMs: 3000,
    message: expect.stringContaining('502'),
  })
})

it('a server that cannot be reached is an error of the network', async () => {
  const app = await testApp({ plugins: [] })
  await app.close()
  expect(await thrownBy(ask(`${app.url}/health`))).toMatchObject({ code: 'network', status: 0 })
})

it.each([
  [400, 'invalid_request'],
  [401, 'unauthorized'],
  [402, 'payment_required'],
  [403, 'invalid_request'],
  [404, 'not_found'],
  [408, 'timeout'],
  [410, 'not_found'],
  [429, 'rate_limited'],
  [500, 'server'],
  [504, 'timeout'],
])('the status %i is the code %s', async (status, code) => {
  expect(await errorOf(Response.json({ message: 'So.' }, { status }))).toMatchObject({
    code,
    status,
  })
})
