import { expect, it } from 'vitest'
import { testApp } from 'oracle-runtime/testing'
import shoppingList from './shopping-list.ts'

const headers = { authorization: 'Bearer the-key-of-this-test' }
const start = (env: Record<string, string> = {}) =>
  testApp({ plugins: [shoppingList], env: { API_KEY: 'the-key-of-this-test', ...env } })

it('keeps what is put on the list, over HTTP and through the agent’s tools', async () => {
  await using app = await start()
  const posted = await app.post('/shopping-list', { name: 'rice', amount: 3 }, headers)
  expect(posted.status).toBe(201)
  expect(posted.headers.get('location')).toBe('/shopping-list')

  const thread = app.thread().load('shopping-list')
  await thread.call('add_to_shopping_list', { name: 'beans' })
  await thread.call('add_to_shopping_list', { name: 'rice', amount: 5 })
  const items = [
    { name: 'beans', amount: 1 },
    { name: 'rice', amount: 5 },
  ]
  expect(await thread.call('read_shopping_list')).toEqual(items)
  expect((await app.get('/shopping-list', { headers })).body).toEqual({ items })
})

it('refuses what it cannot keep, and says why', async () => {
  await using app = await start({ SHOPPING_LIST_MAX: '1' })
  expect((await app.get('/shopping-list')).status).toBe(401)
  const wrong = await app.post('/shopping-list', { name: 'rice', amount: 0.5 }, headers)
  expect(wrong).toMatchObject({
    status: 400,
    body: { code: 'INVALID_INPUT', message: expect.stringContaining('amount') },
  })
  await app.post('/shopping-list', { name: 'rice' }, headers)
  expect(await app.post('/shopping-list', { name: 'beans' }, headers)).toMatchObject({
    status: 409,
    body: { hint: 'Buy something first.' },
  })
})
