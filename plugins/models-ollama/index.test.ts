import { expect, it } from 'vitest'
import { fakeProvider, testApp } from '#core/testing'
import ollama from './index.ts'

it('answers a message where MODEL names it', async () => {
  await using provider = await fakeProvider()
  provider.answer('Hello from here.')
  await using app = await testApp({
    plugins: [ollama],
    env: { MODEL: 'ollama/fake-large', OLLAMA_HOST: new URL(provider.url).host },
  })
  const { text } = await (await app.user()).say('Hello.')
  expect(text).toBe('Hello from here.')
  expect(provider.requests.map(({ path }) => path)).toEqual(['/api/show', '/api/chat'])
})

it('stops the boot where its address is none', async () => {
  const boot = testApp({
    plugins: [ollama],
    env: { MODEL: 'ollama/x', OLLAMA_HOST: 'ftp://example.com' },
  })
  await expect(boot).rejects.toMatchObject({
    message: expect.stringContaining('OLLAMA_HOST is no http or https address.'),
  })
})
