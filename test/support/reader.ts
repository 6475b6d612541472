import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import {
  fakeProvider,
  testApp,
  type FakeProvider,
  type ProviderRequest,
  type ProviderRules,
  type TestApp,
  type TestAppOptions,
} from '#core/testing'

/** A plugin whose tool answers with a kilobyte. */
export const shelf = definePlugin({
  name: 'shelf',
  summary: 'A shelf of books.',
  visibility: 'always',
  tools: {
    read: {
      description: 'Reads a page.',
      effect: 'read',
      input: z.object({ page: z.number() }),
      run: ({ page }) => `Page ${page}: ${'x'.repeat(1000)}`,
    },
  },
})

/** Whether a provider was asked for a summary. */
export const isSummaryRequest = ({ text }: ProviderRequest): boolean =>
  text.includes('Summarise the conversation above in at most')

/** A line of a chat request. */
export interface ChatLine {
  readonly role: string
  readonly content?: string | null
  readonly tool_calls?: readonly { readonly id: string }[]
  readonly tool_call_id?: string
}

/** The conversation of a chat request, without the system's lines. */
export const conversationOf = ({ body }: ProviderRequest): readonly ChatLine[] =>
  (body.messages as readonly ChatLine[]).filter(({ role }) => role !== 'system')

/** Words of a kilobyte. */
export const kilobyte = (nth: number): string => `Turn ${nth}: ${'z'.repeat(1000)}`

/** The environment of an app whose default model is the chat model of a fake provider. */
export const chatEnv = (provider: FakeProvider, more: Record<string, string> = {}) => ({
  MODEL: 'openai/small',
  OPENAI_BASE_URL: provider.url,
  OPENAI_API_KEY: provider.key,
  MODEL_SETTINGS: JSON.stringify({ 'openai/*': { wire: 'chat' } }),
  ...more,
})

/** An app, and the fake provider of its models, for the length of a test. */
export async function withProvider(
  rules: ProviderRules,
  env: Record<string, string> = {},
  options: Partial<TestAppOptions> = {},
): Promise<{ provider: FakeProvider; app: TestApp }> {
  const provider = await fakeProvider(rules)
  onTestFinished(() => provider.close())
  const app = await testApp({ plugins: [shelf], ...options, env: chatEnv(provider, env) })
  onTestFinished(() => app.close())
  return { provider, app }
}
