import { expect, it } from 'vitest'
import { answerOf, OracleError } from '../client/index.ts'
import { testApp } from '#core/testing'

it('the client reads good answers, and turns error answers into one class', async () => {
  await using app = await testApp({ plugins: [] })
  expect(await answerOf<{ status: string }>(await fetch(`${app.url}/health`))).toMatchObject({
    status: 'ok',
  })
  const error = await answerOf(await fetch(`${app.url}/nowhere`)).catch((error: unknown) => error)
  expect(error).toBeInstanceOf(OracleError)
  expect(error).toMatchObject({
    status: 404,
    code: 'NOT_FOUND',
    requestId: expect.stringMatching(/.{8}/),
  })
})

it('a page that is not JSON is an error that says so', async () => {
  const error = await answerOf(new Response('<html>', { status: 502 })).catch(
    (error: unknown) => error,
  )
  expect(error).toMatchObject({
    status: 502,
    code: 'UNKNOWN',
    message: expect.stringContaining('502'),
  })
})
