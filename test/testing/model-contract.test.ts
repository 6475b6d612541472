import { describe, expect, it } from 'vitest'
import type { Delta, Model, ModelRequest } from '#core'
import {
  contractChecks,
  fakeProvider,
  modelContract,
  type ContractOptions,
  type FakeProvider,
  type ProviderRules,
} from '#core/testing'
import { chatModel } from '../support/wires/chat.ts'
import { generateContentModel } from '../support/wires/generate-content.ts'
import { messagesModel } from '../support/wires/messages.ts'
import { ollamaModel } from '../support/wires/ollama.ts'
import { responsesModel } from '../support/wires/responses.ts'

type Make = (place: FakeProvider) => Model

/** A client, and what its server is like. */
interface Client {
  readonly wire: string
  readonly make: Make
  readonly rules?: ProviderRules
}

const signing: readonly Client[] = [
  { wire: 'messages', make: messagesModel },
  { wire: 'responses', make: responsesModel },
  { wire: 'generateContent', make: generateContentModel },
  { wire: 'chat with extra_content', make: chatModel, rules: { chat: 'extra_content' } },
  { wire: 'chat with reasoning_details', make: chatModel, rules: { chat: 'reasoning_details' } },
  { wire: 'chat with reasoning_content', make: chatModel, rules: { chat: 'reasoning_content' } },
]
const clients: readonly Client[] = [
  ...signing,
  { wire: 'chat', make: chatModel },
  { wire: 'ollama', make: ollamaModel },
]

async function contract({ make, rules }: Client, options: ContractOptions = {}) {
  await using provider = await fakeProvider(rules)
  const report = await modelContract(
    ({ name, answers }) => {
      // A server in one's own house has neither an account nor a filter.
      if (/no credit|refused content/.test(name) && make === ollamaModel) return undefined
      provider.clear()
      provider.answer(...answers)
      return make(provider)
    },
    { key: provider.key, ...options },
  )
  return { ...report, provider }
}

/** A client whose requests or deltas are changed on their way. */
function changed(
  { make, ...client }: Client,
  change: {
    readonly request?: (request: ModelRequest) => ModelRequest
    readonly delta?: (delta: Delta) => Delta | undefined
  },
): Client {
  return {
    ...client,
    make(place) {
      const model = make(place)
      async function* stream(request: ModelRequest): AsyncGenerator<Delta> {
        for await (const delta of model.stream(change.request?.(request) ?? request)) {
          const made = change.delta ? change.delta(delta) : delta
          if (made) yield made
        }
      }
      return { ...model, stream, streamTo: undefined }
    },
  }
}

describe('a client that does its work keeps the contract', () => {
  it.each(clients)('on $wire', async (client) => {
    const { findings, checked, skipped } = await contract(client)
    expect(findings).toEqual([])
    expect(checked).toEqual(contractChecks().map(({ name }) => name))
    expect(skipped).toEqual(
      client.make === ollamaModel
        ? [
            'faults by their codes: the provider cannot be brought to no credit.',
            'faults by their codes: the provider cannot be brought to refused content.',
          ]
        : [],
    )
  })

  it.each(clients)('on $wire, when it thinks', async (client) => {
    const { findings } = await contract(client, { settings: { reasoning: 'low' } })
    expect(findings).toEqual([])
  })
})

describe('a client is told in a sentence', () => {
  it.each(signing)('that it loses what the provider signed, on $wire', async (client) => {
    const loses = changed(client, {
      request: (request) => ({
        ...request,
        messages: request.messages.map((message) =>
          message.role === 'assistant' && message.provider
            ? {
                ...message,
                provider: { ...message.provider, data: stripped(message.provider.data) },
              }
            : message,
        ),
      }),
    })
    const { findings } = await contract(loses, { only: ['tool loop'] })
    expect(findings).toEqual([
      expect.stringMatching(
        /^The model loses what its provider wants back: call 2 of the tool loop was refused \(MODEL_BAD_REQUEST: /,
      ),
    ])
  })

  it.each(clients)('that it ignores abort, on $wire', async (client) => {
    const { signal } = new AbortController()
    const deaf = changed(client, { request: (request) => ({ ...request, signal }) })
    const { findings } = await contract(deaf, { only: ['abort'] })
    expect(findings).toEqual([
      'The model answers although its signal had fired before it was asked.',
      'The model ignores the abort: stopped amid its words, it still went on after 100 ms.',
      'The model ignores the abort: stopped before its first word, it still went on after 100 ms.',
    ])
  })

  it.each(clients)('that it reports no usage, on $wire', async (client) => {
    const silent = changed(client, {
      delta: (delta) => (delta.type === 'usage' ? undefined : delta),
    })
    const { findings } = await contract(silent, { only: ['words'] })
    expect(findings).toEqual(['The model reports no usage.'])
  })

  const [client] = signing
  if (!client) throw new Error('There is no client.')

  it('that it leaves the cached tokens out of all tokens', async () => {
    const wrong = changed(client, {
      delta: (delta) => (delta.type === 'usage' ? { ...delta, inputTokens: 500 } : delta),
    })
    expect((await contract(wrong, { only: ['words'] })).findings).toEqual([
      'The model reports 500 as inputTokens where the provider counted 1000 in all.',
    ])
  })

  it('that it reports more cached tokens than tokens, or less than none', async () => {
    const wrong = changed(client, {
      delta: (delta) =>
        delta.type === 'usage' ? { ...delta, inputTokens: -1, cachedTokens: 5 } : delta,
    })
    expect((await contract(wrong, { only: ['words'] })).findings).toEqual([
      'The model reports -1 as inputTokens.',
      'The model reports more cached tokens (105) than input tokens (-1).',
      'The model reports -1 as inputTokens where the provider counted 1000 in all.',
      'The model reports 5 as cachedTokens where the provider counted 400.',
    ])
  })

  it('that its deltas are out of order', async () => {
    const held: Delta[] = []
    const wrong = changed(client, {
      delta(delta) {
        if (delta.type === 'provider') return undefined
        if (delta.type !== 'reasoning') return delta
        held.push(delta)
        return { type: 'provider', data: {} }
      },
    })
    const { findings } = await contract(wrong, { only: ['words'] })
    expect(held.length).toBeGreaterThan(1)
    expect(findings).toContain(`The model gives provider data ${held.length} times in one answer.`)
  })

  it('that its calls run into each other, and that an empty call has no arguments', async () => {
    const wrong = changed(client, {
      delta: (delta) =>
        delta.type === 'tool-call' ? { ...delta, args: delta.args || 'null' } : delta,
    })
    const { findings } = await contract(wrong, { only: ['parallel calls', 'empty arguments'] })
    expect(findings).toContainEqual(expect.stringMatching(/^The model makes the calls /))
    expect(findings).toContainEqual(expect.stringMatching(/in place of \{\}\.$/))
  })

  it('that an image does not arrive', async () => {
    const blind = changed(client, {
      request: (request) => ({
        ...request,
        file: async (id) => (await request.file?.(id))?.subarray(0, 20) ?? new Uint8Array(),
      }),
    })
    const { findings } = await contract(blind, { only: ['images'] })
    expect(findings).toEqual([
      expect.stringMatching(
        /^An image of the user, image\/png of 70 bytes, reaches the provider as "image\/png 20"\.$/,
      ),
      expect.stringMatching(/^An image of a tool, .* reaches the provider as "image\/png 20"\.$/),
    ])
  })

  it('that a fault has no code, and that the key stands in it', async () => {
    const bare: Client = {
      ...client,
      make(place) {
        const model = client.make(place)
        async function* stream(request: ModelRequest): AsyncGenerator<Delta> {
          try {
            yield* model.stream(request)
          } catch {
            throw new Error('It failed.', { cause: { headers: { 'x-api-key': place.key } } })
          }
        }
        return { ...model, stream, streamTo: undefined }
      },
    }
    const { findings, provider } = await contract(bare, { only: ['faults by their codes'] })
    expect(findings).toContain(
      'The model fails with "It failed." where its provider has a wrong key: MODEL_UNAUTHORIZED is the code.',
    )
    expect(findings).toContain(
      'The key stands in the error of "faults by their codes" (It failed.).',
    )
    expect(findings.join()).not.toContain(provider.key)
  })
})

describe('the contract on a real provider', () => {
  it('says first how many calls it makes, and makes none that only a provider of tests can answer', async () => {
    const checks = contractChecks({ real: true })
    expect(checks.map(({ name }) => name)).not.toContain('faults by their codes')
    const most = checks.reduce((sum, { calls }) => sum + calls, 0)
    await using provider = await fakeProvider()
    provider.otherwise = { text: 'One two three.', usage: { inputTokens: 9, outputTokens: 3 } }
    const { findings, skipped } = await modelContract(() => messagesModel(provider), {
      real: true,
      key: provider.key,
    })
    expect(provider.requests.length).toBeLessThanOrEqual(most)
    expect(skipped).toEqual([
      'parallel calls: the model made no parallel calls.',
      'empty arguments: the model made no call.',
      'tool loop: the model made no call.',
    ])
    // A real model is told what it does not do, and not that it says other words.
    expect(findings).toEqual([
      'The model does not call the tool that it must call.',
      'The model gives "One two three." where an object was asked for.',
    ])
  })

  it('tells of a model that cannot be opened', async () => {
    const { findings } = await modelContract(
      () => {
        throw new Error('No such package.')
      },
      { only: ['words'] },
    )
    expect(findings).toEqual(['The check "words" could not be made (No such package.).'])
  })
})

/** Provider data without what the provider signed. */
function stripped(data: unknown): unknown {
  if (Array.isArray(data))
    return data
      .filter((item) => !/^(redacted_)?thinking$|^reasoning/.test(String(item?.type)))
      .map(stripped)
  if (typeof data !== 'object' || data === null) return data
  const signed = ['thoughtSignature', 'extra_content', 'reasoning_details', 'reasoning_content']
  return Object.fromEntries(
    Object.entries(data)
      .filter(([name]) => !signed.includes(name))
      .map(([name, value]) => [name, stripped(value)]),
  )
}
