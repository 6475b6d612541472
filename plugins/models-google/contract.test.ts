import { describe, expect, it } from 'vitest'
import {
  contractChecks,
  fakeProvider,
  modelContract,
  type ContractOptions,
  type ProviderRules,
} from '#core/testing'
import { GenerateModel } from './model.ts'

interface Case {
  readonly what: string
  readonly rules?: ProviderRules
  readonly settings?: ContractOptions['settings']
}

const cases: readonly Case[] = [
  { what: 'as it is' },
  { what: 'when it thinks', settings: { reasoning: 'low' } },
  { what: 'when it must not think', settings: { reasoning: 'none', temperature: 0.5 } },
  { what: 'where contents alternate', rules: { alternates: true } },
  {
    what: 'where the server refuses the temperature, the schema and the length',
    settings: { temperature: 0.5, maxOutputTokens: 9000 },
    rules: { refuses: ['temperature', 'object'], maxOutputTokens: 4096 },
  },
]

describe('a model behind generateContent keeps the contract', () => {
  it.each(cases)('$what', async ({ rules, settings }) => {
    await using provider = await fakeProvider(rules)
    const report = await modelContract(
      ({ answers }) => {
        provider.clear()
        provider.answer(...answers)
        return new GenerateModel({
          id: 'google/fake-large',
          name: 'fake-large',
          apiKey: provider.key,
          baseUrl: provider.url,
        })
      },
      { key: provider.key, ...(settings && { settings }) },
    )
    expect(report.findings).toEqual([])
    expect(report.skipped).toEqual([])
    expect(report.checked).toEqual(contractChecks().map(({ name }) => name))
  })
})
