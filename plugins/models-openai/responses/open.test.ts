import { expect, it } from 'vitest'
import { fakeProvider } from '#core/testing'
import { listModels } from '../chat/list.ts'
import { compatible, speaksResponses } from '../compatible.ts'
import { openResponses } from './open.ts'

const { openai, azure, openrouter } = compatible

it.each([
  ['OpenAI', openai, undefined, undefined, true],
  ['OpenAI at its own address', openai, 'https://api.openai.com', undefined, true],
  ['another address', openai, 'https://proxy.example.com/v1', undefined, false],
  [
    'another address, where the settings say so',
    openai,
    'https://p.example.com',
    'responses',
    true,
  ],
  ['OpenAI, where the settings say chat', openai, undefined, 'chat', false],
  ['Azure', azure, 'https://x.openai.azure.com', undefined, false],
  ['Azure, where the settings say so', azure, 'https://x.openai.azure.com', 'responses', true],
  ['another provider', openrouter, undefined, undefined, false],
] as const)('Responses are asked of %s: %s', (_, row, baseUrl, wire, isAsked) => {
  if (!row) throw new Error('There is no such provider.')
  expect(speaksResponses({ row, baseUrl, settings: { wire } })).toBe(isAsked)
})

it.each(['', '/v1', '/v1/', '/v1/responses'])('an address may end in "%s"', async (end) => {
  await using provider = await fakeProvider()
  if (!openai) throw new Error('There is no such provider.')
  const model = openResponses({
    id: 'openai/m',
    name: 'm',
    row: openai,
    apiKey: provider.key,
    baseUrl: provider.url + end,
    settings: { headers: { 'x-room': 'a' } },
  })
  const names = await listModels({
    row: openai,
    apiKey: provider.key,
    baseUrl: provider.url + end,
    signal: new AbortController().signal,
  })
  expect(names).toContain('fake-large')
  expect(provider.requests[0]?.path).toBe('/v1/models')
  const messages = [{ role: 'user', id: 'u', content: 'Hello.' }] as const
  const { signal } = new AbortController()
  await model.streamTo({ messages, tools: [], signal }, () => {})
  expect(provider.requests.at(-1)).toMatchObject({
    path: '/v1/responses',
    headers: { authorization: `Bearer ${provider.key}`, 'x-room': 'a' },
  })
})
