import { describe, expect, it } from 'vitest'
import {
  contractChecks,
  fakeProvider,
  modelContract,
  type ContractOptions,
  type ProviderRules,
} from '#core/testing'
import { compatible } from '../compatible.ts'
import { ChatModel } from './model.ts'

interface Case {
  readonly provider: string
  readonly rules?: ProviderRules
  readonly settings?: ContractOptions['settings']
  readonly how: string
}

const dialects: readonly (readonly [provider: string, rules?: ProviderRules])[] = [
  ['openai'],
  ['azure'],
  ['mistral'],
  ['groq'],
  ['xai'],
  ['lmstudio'],
  ['vllm'],
  ['together', { chat: 'extra_content' }],
  ['fireworks', { chat: 'extra_content' }],
  ['openrouter', { chat: 'reasoning_details' }],
  ['deepseek', { chat: 'reasoning_content' }],
  ['moonshotai', { chat: 'reasoning_content' }],
  ['z-ai', { chat: 'reasoning_content' }],
]

const cases: readonly Case[] = [
  ...dialects.map(([provider, rules]) => ({ provider, rules, how: 'as it is' })),
  ...dialects
    .filter(([, rules]) => rules)
    .map(([provider, rules]) => ({
      ...{ provider, rules, how: 'when it thinks' },
      settings: { reasoning: 'low' } as const,
    })),
  {
    provider: 'openai',
    how: 'where the server refuses the temperature, the schema and the length',
    settings: { temperature: 0.5, maxOutputTokens: 5000 },
    rules: { refuses: ['temperature', 'object'], maxOutputTokens: 4096 },
  },
]

describe('a model behind chat completions keeps the contract', () => {
  it.each(cases)('of $provider, $how', async ({ provider: name, rules, settings }) => {
    const row = compatible[name]
    if (!row) throw new Error(`The table has no ${name}.`)
    await using provider = await fakeProvider(rules)
    const report = await modelContract(
      ({ answers }) => {
        provider.clear()
        provider.answer(...answers)
        return new ChatModel({
          id: `${name}/fake-large`,
          name: 'fake-large',
          apiKey: provider.key,
          baseUrl: provider.url,
          row: { ...row, reads: { image: ['image/png'] } },
        })
      },
      { key: provider.key, ...(settings && { settings }) },
    )
    expect(report.findings).toEqual([])
    expect(report.checked).toEqual(contractChecks().map((check) => check.name))
    expect(report.skipped).toEqual(row.withoutSchemas ? [expect.stringContaining('objects')] : [])
  })

  it('covers every provider of the table', () => {
    expect(dialects.map(([name]) => name).toSorted()).toEqual(Object.keys(compatible).toSorted())
  })
})
