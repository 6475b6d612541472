import { expect, it } from 'vitest'
import { fakeProvider } from '#core/testing'
import { listModels } from './list.ts'

it('the models that the key reaches are listed by their names', async () => {
  await using provider = await fakeProvider({ models: ['claude-a', 'claude-b'] })
  const { signal } = new AbortController()
  const access = { apiKey: provider.key, baseUrl: provider.url, signal }
  expect(await listModels(access)).toEqual(['claude-a', 'claude-b'])
  expect(provider.requests[0]?.headers['x-api-key']).toBe(provider.key)
})
