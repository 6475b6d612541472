import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { fakeProvider, testApp, type ProviderAnswer, type ProviderRules } from '#core/testing'
import { isSummaryRequest, kilobyte } from '../support/reader.ts'

const shelf = definePlugin({
  name: 'shelf',
  summary: 'A shelf of books.',
  visibility: 'always',
  tools: {
    read: {
      description: 'Reads a page.',
      effect: 'read',
      input: z.object({ page: z.number() }),
      run: ({ page }) => `Page ${page}: ${'x'.repeat(900)}`,
    },
  },
})

interface WireCase {
  readonly name: string
  readonly id: string
  readonly env: readonly [key: string, address: string]
  readonly wire?: 'chat' | 'responses'
  readonly rules?: ProviderRules
}

const openAi = ['OPENAI_API_KEY', 'OPENAI_BASE_URL'] as const
const wires: readonly WireCase[] = [
  {
    name: 'Messages',
    id: 'anthropic/small',
    env: ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'],
  },
  {
    name: 'generateContent',
    id: 'google/small',
    env: ['GEMINI_API_KEY', 'GOOGLE_BASE_URL'],
  },
  { name: 'Responses', id: 'openai/small', env: openAi, wire: 'responses' },
  { name: 'chat', id: 'openai/small', env: openAi, wire: 'chat' },
  ...(['extra_content', 'reasoning_details', 'reasoning_content'] as const).map((chat) => ({
    name: `chat with ${chat}`,
    id: chat === 'reasoning_details' ? 'openrouter/small' : 'deepseek/small',
    env:
      chat === 'reasoning_details'
        ? (['OPENROUTER_API_KEY', 'OPENROUTER_BASE_URL'] as const)
        : (['DEEPSEEK_API_KEY', 'DEEPSEEK_BASE_URL'] as const),
    rules: { chat },
  })),
]

async function started({ id, env: [key, address], wire, rules }: WireCase, window: boolean) {
  const provider = await fakeProvider({ ...rules, window: 8000 })
  onTestFinished(() => provider.close())
  const app = await testApp({
    plugins: [shelf],
    env: {
      MODEL: id,
      [key]: provider.key,
      [address]: provider.url,
      MODEL_SETTINGS: JSON.stringify({
        '*': { reasoning: 'low', ...(wire && { wire }), maxOutputTokens: 1500 },
      }),
      ...(window && { MODEL_CONTEXT_WINDOW: '8000' }),
    },
  })
  onTestFinished(() => app.close())
  return { provider, app }
}

/** Answers of one turn: so many signed calls, one after the other, then words. */
const turnOf = (calls: number): ProviderAnswer[] => [
  ...Array.from({ length: calls }, (_, page) => ({
    reasoning: ['I think of it.', `Page ${page}.`],
    text: 'One moment.',
    calls: [
      { name: 'read', args: { page: 2 * page } },
      { name: 'read', args: { page: 2 * page + 1 } },
    ],
  })),
  { reasoning: 'Done.', text: 'I have read it.' },
]

describe.each(wires)('a conversation longer than the window, on $name', (wire) => {
  it.each([
    ['with its window set', true],
    ['with a window that the server refuses with', false],
  ])('keeps what the provider signed, %s', async (_, window) => {
    const { provider, app } = await started(wire, window)
    const user = await app.user()
    let sessionId: string | undefined
    const kinds: unknown[] = []
    // The last turn is longer than the window by itself.
    for (const [nth, calls] of [2, 1, 2, 1, 2, 1, 2, 1, 12].entries()) {
      const answers = turnOf(calls)
      provider.otherwise = (request) =>
        isSummaryRequest(request) ? 'They read pages.' : (answers.shift() ?? 'No more.')
      const said = await user.say(kilobyte(nth), { sessionId })
      ;({ sessionId } = said)
      expect(said.status, provider.refusals.join('\n')).toBe('finished')
      kinds.push(...said.of('context').map(({ kind }) => kind))
      // The next process knows what was signed from the journal.
      if (nth === 6) await app.again()
    }
    expect(kinds).toContain('pruned')
    expect(kinds).toContain('summarised')
    const others = provider.refusals.filter(
      (text) => !/too long|context|maximum number of tokens/.test(text),
    )
    expect(others).toEqual([])
    if (window) expect(provider.refusals).toEqual([])
    else expect(provider.refusals.length).toBeGreaterThan(0)
  })
})
