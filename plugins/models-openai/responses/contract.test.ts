import { describe, expect, it } from 'vitest'
import { contractChecks, fakeProvider, modelContract, type ContractOptions } from '#core/testing'
import { ResponsesModel } from './model.ts'

async function contract(options: ContractOptions = {}) {
  await using provider = await fakeProvider()
  return await modelContract(
    ({ answers }) => {
      provider.clear()
      provider.answer(...answers)
      return new ResponsesModel({
        id: 'openai/fake-large',
        name: 'fake-large',
        url: new URL('/v1/responses', provider.url),
        headers: { authorization: `Bearer ${provider.key}` },
        secret: provider.key,
        variables: { key: 'OPENAI_API_KEY', address: 'OPENAI_BASE_URL' },
        reads: { image: ['image/png'] },
      })
    },
    { key: provider.key, ...options },
  )
}

describe('Responses keep the contract of models', () => {
  it.each(['none', 'low', 'max'] as const)('with reasoning %s', async (reasoning) => {
    const { findings, checked, skipped } = await contract({ settings: { reasoning } })
    expect(findings).toEqual([])
    expect(skipped).toEqual([])
    expect(checked).toEqual(contractChecks().map(({ name }) => name))
  })

  it('without a setting', async () => {
    expect((await contract()).findings).toEqual([])
  })
})
