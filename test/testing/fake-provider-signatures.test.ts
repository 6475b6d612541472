import { describe, expect, it } from 'vitest'
import type { Message, Model } from '#core'
import { Assembly } from '#core/models'
import {
  fakeProvider,
  type FakeProvider,
  type ProviderRules,
  type ProviderSpeech,
} from '#core/testing'
import { chatModel } from '../support/wires/chat.ts'
import { generateContentModel } from '../support/wires/generate-content.ts'
import { messagesModel } from '../support/wires/messages.ts'
import { responsesModel } from '../support/wires/responses.ts'

/** A wire that signs, and its words for what was changed, reordered and lost. */
interface Signing {
  readonly wire: string
  readonly make: (place: FakeProvider) => Model
  readonly rules?: ProviderRules
  readonly changed: RegExp
  readonly reordered: RegExp
}

const missing = /is missing a thought_signature|Corrupted thought signature/
const signing: readonly Signing[] = [
  {
    wire: 'messages',
    make: messagesModel,
    changed: /Invalid `signature` in `thinking` block$/,
    reordered: /blocks in the latest assistant message cannot be modified\./,
  },
  {
    wire: 'responses',
    make: responsesModel,
    changed: /^The encrypted content for item rs_\w+ could not be verified\./,
    reordered: /without its required/,
  },
  {
    wire: 'generateContent',
    make: generateContentModel,
    changed: /^Corrupted thought signature\.$/,
    reordered: missing,
  },
  {
    wire: 'chat with extra_content',
    make: chatModel,
    rules: { chat: 'extra_content' },
    changed: /^Corrupted thought signature\.$/,
    reordered: missing,
  },
  {
    wire: 'chat with reasoning_details',
    make: chatModel,
    rules: { chat: 'reasoning_details' },
    changed: /Invalid `signature` in `thinking` block$/,
    reordered: /Invalid `signature` in `thinking` block$/,
  },
  {
    wire: 'chat with reasoning_content',
    make: chatModel,
    rules: { chat: 'reasoning_content' },
    changed: /^The `reasoning_content` in the thinking mode must be passed back/,
    reordered: /^/,
  },
]
const tools = [{ name: 'note', description: 'Notes.', parameters: { type: 'object' } }]
const speech: ProviderSpeech = {
  reasoning: ['One thing first.', 'Then another thing.'],
  calls: [
    { name: 'note', args: { b: 1, a: 2 } },
    { name: 'note', args: { b: 3, a: 4 } },
  ],
}

/** Asks once, and once more with what `change` makes of the provider's data; the sentences of the refusals. */
async function twice(
  { make, rules }: Signing,
  says: ProviderSpeech,
  change: (data: unknown) => unknown,
): Promise<readonly string[]> {
  await using provider = await fakeProvider(rules)
  provider.answer(says, 'There you are.')
  const model = make(provider)
  const { signal } = new AbortController()
  const messages: Message[] = [{ role: 'user', id: 'u', content: 'Note it.' }]
  const ask = async () => {
    const assembly = new Assembly()
    for await (const delta of model.stream({ messages, tools, signal })) assembly.add(delta)
    return assembly.reply()
  }
  const { content, toolCalls, provider: data } = await ask()
  const given = { by: model.id, data: change(structuredClone(data)) }
  messages.push({ role: 'assistant', id: 'a', content, toolCalls, provider: given })
  for (const { id, name } of toolCalls)
    messages.push({ role: 'tool', id: `r${id}`, toolCallId: id, name, content: '{}' })
  await ask().catch(() => {})
  return [...provider.refusals]
}

/** The same data with every list and every object changed by a function. */
function mapped(data: unknown, change: (value: any) => unknown): unknown {
  if (Array.isArray(data)) return change(data.map((item) => mapped(item, change)))
  if (typeof data !== 'object' || data === null) return data
  const entries = Object.entries(data).map(([name, value]) => [name, mapped(value, change)])
  return change(Object.fromEntries(entries))
}

const signatures = ['signature', 'encrypted_content', 'thoughtSignature', 'thought_signature']

describe.each(signing)('what the fake provider signed on $wire', (wire) => {
  it('is taken as it came, and with the keys in another order', async () => {
    expect(await twice(wire, speech, (data) => data)).toEqual([])
    const sorted = (value: any) =>
      Array.isArray(value)
        ? value
        : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
    expect(await twice(wire, speech, (data) => mapped(data, sorted))).toEqual([])
  })

  it('is refused where it was changed', async () => {
    const forged = (value: any) => {
      for (const name of signatures)
        if (value[name]) value[name] = `AAAA${String(value[name]).slice(4)}`
      if (value.reasoning_content) value.reasoning_content += '!'
      return value
    }
    expect(await twice(wire, speech, (data) => mapped(data, forged))).toEqual([
      expect.stringMatching(wire.changed),
    ])
  })

  // A text without a signature has no place of its own.
  if (wire.wire === 'chat with reasoning_content') return

  it('is refused where it was put elsewhere', async () => {
    const turned = (value: any) => (Array.isArray(value) ? value.reverse() : value)
    // Calls are told apart by what they ask for, so the second call gets the signature of the first.
    const says = wire.wire === 'generateContent' ? { ...speech, reasoning: undefined } : speech
    const moved = (data: any) =>
      data.calls?.[0]?.extra_content
        ? {
            calls: [
              { ...data.calls[0], extra_content: undefined },
              { ...data.calls[1], ...pick(data) },
            ],
          }
        : mapped(data, turned)
    expect(await twice(wire, says, moved)).toEqual([expect.stringMatching(wire.reordered)])
  })
})

const pick = (data: any) => ({ extra_content: data.calls[0].extra_content })

it.each(signing.filter(({ wire }) => /^messages|details$/.test(wire)))(
  'redacted thinking comes back unread on $wire',
  async (wire) => {
    const redacted = { ...speech, redacted: true }
    expect(await twice(wire, redacted, (data) => data)).toEqual([])
    const emptied = (value: any) => (value.data ? { ...value, data: 'AAAA' } : value)
    expect(await twice(wire, redacted, (data) => mapped(data, emptied))).toEqual([
      expect.stringMatching(/^messages\.1\.content\.0: Invalid `(data|signature)` in `/),
    ])
  },
)
