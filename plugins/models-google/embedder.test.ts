import { describe, expect, it } from 'vitest'
import { fakeProvider } from '#core/testing'
import { GoogleEmbedder } from './embedder.ts'
import { listModels } from './list.ts'

const { signal } = new AbortController()

describe('vectors of Google', () => {
  it('come for each text in its order, at most 96 in a request', async () => {
    await using provider = await fakeProvider()
    const embedder = new GoogleEmbedder({
      id: 'google/e',
      name: 'e',
      apiKey: provider.key,
      baseUrl: provider.url,
    })
    const texts = Array.from({ length: 100 }, (_, nth) => `text ${nth}`)
    const { vectors } = await embedder.embed(texts, { kind: 'document', signal })
    expect(vectors).toHaveLength(100)
    const { vectors: again } = await embedder.embed(['text 99', ''], { kind: 'document', signal })
    expect(again[0]).toEqual(vectors[99])
    const counts = provider.requests.map(({ body }) => (body.requests as unknown[]).length)
    expect(counts).toEqual([96, 4, 2])
    expect(provider.requests[0]?.headers['x-goog-api-key']).toBe(provider.key)
    expect(provider.requests[2]?.body.requests).toEqual([
      expect.objectContaining({ model: 'models/e', taskType: 'RETRIEVAL_DOCUMENT' }),
      expect.objectContaining({ content: { parts: [{ text: ' ' }] } }),
    ])
  })

  it('are refused with a wrong key, which stands in no word of the fault', async () => {
    await using provider = await fakeProvider()
    const wrong = { id: 'google/e', name: 'e', apiKey: 'g-wrong-key', baseUrl: provider.url }
    const asked = new GoogleEmbedder(wrong).embed(['a'], { kind: 'query', signal })
    const error = await asked.catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'MODEL_UNAUTHORIZED' })
    expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain('g-wrong-key')
  })
})

it('the models that the key reaches are listed by their names', async () => {
  await using provider = await fakeProvider({ models: ['gemini-a', 'gemini-b'] })
  const access = { apiKey: provider.key, baseUrl: provider.url, signal }
  expect(await listModels(access)).toEqual(['gemini-a', 'gemini-b'])
})
