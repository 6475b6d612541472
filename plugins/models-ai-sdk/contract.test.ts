import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { createAnthropic as createAnthropicV3 } from 'ai-sdk-anthropic-v3'
import { createGoogleGenerativeAI as createGoogleV3 } from 'ai-sdk-google-v3'
import { createOpenAI as createOpenAIV3 } from 'ai-sdk-openai-v3'
import { describe, expect, it } from 'vitest'
import { AiSdkLanguageModel, type AiSdkModel } from '#core/models'
import { contractChecks, fakeProvider, modelContract, type ContractOptions } from '#core/testing'
import { known } from './known.ts'

interface Access {
  readonly apiKey: string
  readonly baseURL: string
}

const packages: Readonly<Record<string, (access: Access) => AiSdkModel>> = {
  '@ai-sdk/anthropic 4': (access) => createAnthropic(access)('fake-large'),
  '@ai-sdk/google 4': (access) => createGoogle(access)('fake-large'),
  '@ai-sdk/openai 4': (access) => createOpenAI(access).responses('gpt-5'),
  '@ai-sdk/anthropic 3': (access) => createAnthropicV3(access)('fake-large'),
  '@ai-sdk/google 3': (access) => createGoogleV3(access)('fake-large'),
  '@ai-sdk/openai 3': (access) => createOpenAIV3(access).responses('gpt-5'),
}

async function contract(name: string, options: ContractOptions = {}) {
  await using provider = await fakeProvider()
  const [of = '', version] = name.split(' ')
  const baseURL = `${provider.url}${of.endsWith('google') ? '/v1beta' : '/v1'}`
  return await modelContract(
    ({ answers }) => {
      provider.clear()
      provider.answer(...answers)
      const model = packages[name]!({ apiKey: provider.key, baseURL })
      expect(model.specificationVersion).toBe(`v${version}`)
      return new AiSdkLanguageModel(model, { ...known[of], secret: provider.key })
    },
    { key: provider.key, ...options },
  )
}

describe.each(Object.keys(packages))('a model of %s keeps the contract of models', (name) => {
  it.each([undefined, 'low'] as const)('with reasoning %s', async (reasoning) => {
    const { findings, checked, skipped } = await contract(name, { settings: { reasoning } })
    expect(findings).toEqual([])
    expect(checked).toEqual(contractChecks().map(({ name }) => name))
    expect(skipped).toEqual(['both ways of asking: the model has no streamTo.'])
  })
})
