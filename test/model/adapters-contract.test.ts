import { ChatAnthropic } from '@langchain/anthropic'
import { describe, expect, it } from 'vitest'
import { contractChecks, fakeProvider, modelContract, type ContractOptions } from '#core/testing'
import { asModel } from '../../core/runtime/model/given.ts'
import { demoModel } from '../../plugins/models-demo/demo-model.ts'

/** A chat model of LangChain, with the settings of thoughts that its own class has. */
async function langChain(thinks: boolean, options: ContractOptions = {}) {
  await using provider = await fakeProvider()
  return await modelContract(
    ({ answers }) => {
      provider.clear()
      provider.answer(...answers)
      return asModel(
        new ChatAnthropic({
          model: 'fake-large',
          apiKey: provider.key,
          anthropicApiUrl: provider.url,
          maxRetries: 0,
          maxTokens: 4000,
          ...(thinks && { thinking: { type: 'enabled', budget_tokens: 2000 } }),
        }),
      )
    },
    { key: provider.key, ...options },
  )
}

describe('a chat model of LangChain keeps the contract of models', () => {
  // An object of the class thinks in every call, also where this provider takes no thoughts: in a call of a forced tool, and in a turn
  // in which another model called tools, or thoughts came unsigned.
  const notWhileThinking = [
    'a forced tool',
    'messages of another model',
    'thinking without a signature',
  ]

  it.each([
    ['as it is', false],
    ['when it thinks', true],
  ])('%s', async (_, thinks) => {
    const only = contractChecks()
      .map(({ name }) => name)
      .filter((name) => !thinks || !notWhileThinking.includes(name))
    const { findings, checked, skipped } = await langChain(thinks, { only })
    expect(findings).toEqual([])
    expect(checked).toEqual(only)
    expect(skipped).toEqual([
      'both ways of asking: the model has no streamTo.',
      'objects: the model has no mode for objects.',
      'images: the model reads no images.',
    ])
  })
})

it('the demonstration model keeps the contract, as far as a model can that nobody tells what to answer', async () => {
  const { findings, checked } = await modelContract(() => demoModel({ wordsPerSecond: Infinity }), {
    real: true,
  })
  // It takes every file, and says that it looks into none.
  expect(findings).toEqual([
    'The model never asks for the bytes of an image of the user.',
    'The model never asks for the bytes of an image of a tool.',
  ])
  expect(checked).toEqual(contractChecks({ real: true }).map(({ name }) => name))
})
