import { describe, expect, it } from 'vitest'
import { contractChecks, fakeProvider, modelContract, type ContractOptions } from '#core/testing'
import { OllamaModel } from './model.ts'

async function contract(options: ContractOptions = {}) {
  await using provider = await fakeProvider()
  return await modelContract(
    ({ name, answers }) => {
      // A server in one's own house has neither an account nor a filter.
      if (/no credit|refused content/.test(name)) return undefined
      provider.clear()
      provider.answer(...answers)
      return OllamaModel.open({
        id: 'ollama/fake-large',
        name: 'fake-large',
        host: provider.url,
        apiKey: provider.key,
      })
    },
    { key: provider.key, ...options },
  )
}

describe('a model of Ollama keeps the contract of models', () => {
  it.each([undefined, 'none', 'low', 'max'] as const)('with reasoning %s', async (reasoning) => {
    const { findings, checked, skipped } = await contract({ settings: { reasoning } })
    expect(findings).toEqual([])
    expect(checked).toEqual(contractChecks().map(({ name }) => name))
    expect(skipped).toEqual([
      'faults by their codes: the provider cannot be brought to no credit.',
      'faults by their codes: the provider cannot be brought to refused content.',
    ])
  })
})
