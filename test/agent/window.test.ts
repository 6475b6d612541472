import { expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import {
  fakeProvider,
  testApp,
  type FakeProvider,
  type ProviderRequest,
  type TestApp,
} from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'

const about = 'x'.repeat(1000)

/** Reads a kilobyte; writes, too. */
const shelf = definePlugin({
  name: 'shelf',
  summary: 'A shelf of books.',
  visibility: 'always',
  tools: {
    read: {
      description: 'Reads a page.',
      effect: 'read',
      input: z.object({ page: z.number() }),
      run: ({ page }) => `Page ${page}: ${about}`,
    },
  },
})

interface Line {
  readonly role: string
  readonly content?: string | null
  readonly tool_calls?: readonly { readonly id: string }[]
  readonly tool_call_id?: string
}

const linesOf = ({ body }: ProviderRequest) => body.messages as readonly Line[]
const isSummaryRequest = (request: ProviderRequest) =>
  request.text.includes('Summarise the conversation above in at most')

/** Answers turn by turn: a call first, then a kilobyte of words; and a summary where one is asked for. */
function answering(provider: FakeProvider, summary = 'They read pages.') {
  provider.otherwise = (request) => {
    if (isSummaryRequest(request)) return summary
    const last = linesOf(request).at(-1)
    return last?.role === 'user'
      ? { reasoning: 'Hm.', calls: [{ name: 'read', args: { page: linesOf(request).length } }] }
      : `Read. ${'y'.repeat(200)}`
  }
}

const say = (nth: number) => `Turn ${nth}: ${'z'.repeat(1000)}`

/** What has to hold for every request that a provider took. */
function expectWhole(request: ProviderRequest) {
  if (isSummaryRequest(request)) return
  const lines = linesOf(request).filter(({ role }) => role !== 'system')
  expect(lines[0]?.role).toBe('user')
  const calls = lines.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id))
  const results = lines.flatMap(({ tool_call_id }) => tool_call_id ?? [])
  expect(results).toEqual(calls)
}

const env = (provider: FakeProvider, more: Record<string, string> = {}) => ({
  MODEL: 'openai/small',
  OPENAI_BASE_URL: provider.url,
  OPENAI_API_KEY: provider.key,
  MODEL_SETTINGS: JSON.stringify({ 'openai/*': { wire: 'chat' } }),
  ...more,
})

async function started(
  rules: Parameters<typeof fakeProvider>[0],
  more: Record<string, string>,
  databaseUrl?: string,
): Promise<{ provider: FakeProvider; app: TestApp }> {
  const provider = await fakeProvider(rules)
  onTestFinished(() => provider.close())
  const own = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }
  const app = await testApp({ plugins: [shelf], env: env(provider, { ...own, ...more }) })
  onTestFinished(() => app.close())
  return { provider, app }
}

const turns = Number(process.env.T ?? 200)

await onEachDatabase('a session that outgrows its model', ({ databaseUrl }) => {
  it('goes on for 200 turns against a server that refuses what is longer than 8,000 tokens, without a setting', async () => {
    const { provider, app } = await started({ window: 8000 }, {}, databaseUrl)
    answering(provider)
    const user = await app.user()
    let sessionId: string | undefined
    for (let nth = 1; nth <= turns; nth++) {
      const said = await user.say(say(nth), { sessionId })
      ;({ sessionId } = said)
      expect(said.status, `turn ${nth}: ${said.text}`).toBe('finished')
      expect(
        linesOf(provider.requests.at(-1)!).findLast(({ role }) => role === 'user')?.content,
      ).toBe(say(nth))
    }
    for (const request of provider.requests) expectWhole(request)
    // The window is learned from the first refusal, and by what the calls report no other one follows.
    expect(provider.refusals.length).toBeGreaterThan(0)
    expect(provider.refusals.length).toBeLessThan(4)
    expect((await user.say('hi', { sessionId })).status).toBe('finished')
    const summaries = provider.requests.filter(isSummaryRequest)
    expect(summaries.length).toBeGreaterThan(3)
    expect(new Set(summaries.map(({ text }) => text)).size).toBe(summaries.length)
    const history = (await user.get(`/messages/${sessionId}`)).body.messages
    expect(history.filter(({ type }: { type: string }) => type === 'human')).toHaveLength(turns + 1)
    expect(JSON.stringify(history)).not.toContain('Summary of the conversation')
  }, 600_000)

  it('is never refused where MODEL_CONTEXT_WINDOW says how much the server reads', async () => {
    const { provider, app } = await started(
      { window: 8000 },
      { MODEL_CONTEXT_WINDOW: '8000' },
      databaseUrl,
    )
    answering(provider)
    const user = await app.user()
    let sessionId: string | undefined
    for (let nth = 1; nth <= 60; nth++) {
      const said = await user.say(say(nth), { sessionId })
      ;({ sessionId } = said)
      expect(said.status).toBe('finished')
      if (nth % 20 === 0) await app.again()
    }
    expect(provider.refusals).toEqual([])
    for (const request of provider.requests) expectWhole(request)
  }, 600_000)
})
