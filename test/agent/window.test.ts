import { expect, it } from 'vitest'
import type { FakeProvider, ProviderRequest } from '#core/testing'
import { onEachDatabase } from '../support/each-database.ts'
import { conversationOf, isSummaryRequest, kilobyte, withProvider } from '../support/reader.ts'

/** Reads a page in each turn and says something of it; summarises where that is asked for. */
function readsInEachTurn(provider: FakeProvider) {
  provider.otherwise = (request) => {
    if (isSummaryRequest(request)) return 'They read pages.'
    const lines = conversationOf(request)
    return lines.at(-1)?.role === 'user'
      ? { calls: [{ name: 'read', args: { page: lines.length } }] }
      : `Read. ${'y'.repeat(200)}`
  }
}

function expectWhole(request: ProviderRequest) {
  const lines = conversationOf(request)
  expect(lines[0]?.role).toBe('user')
  const calls = lines.flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id))
  expect(lines.flatMap(({ tool_call_id }) => tool_call_id ?? [])).toEqual(calls)
}

const turns = 200

await onEachDatabase('a session that outgrows a model of 8,000 tokens', ({ databaseUrl }) => {
  const where = databaseUrl === undefined ? undefined : { DATABASE_URL: databaseUrl }

  it('goes on for 200 turns with tools, and the window is learned from what the server refuses', async () => {
    const { provider, app } = await withProvider({ window: 8000 }, where)
    readsInEachTurn(provider)
    const user = await app.user()
    let sessionId: string | undefined
    const kinds = new Set<string>()
    for (let nth = 1; nth <= turns; nth++) {
      const said = await user.say(kilobyte(nth), { sessionId })
      ;({ sessionId } = said)
      expect(said.status, `turn ${nth}`).toBe('finished')
      const asked = conversationOf(provider.requests.at(-1)!).findLast(
        ({ role }) => role === 'user',
      )
      expect(asked?.content).toBe(kilobyte(nth))
      for (const told of said.of('context')) {
        kinds.add(String(told.kind))
        expect(Number(told.tokensAfter)).toBeLessThan(Number(told.tokensBefore))
      }
    }
    expect(kinds).toEqual(new Set(['pruned', 'summarised']))
    for (const request of provider.requests) expectWhole(request)
    expect(provider.refusals).toHaveLength(1)
    expect((await user.say('hi', { sessionId })).status).toBe('finished')

    const summaries = provider.requests.filter(isSummaryRequest)
    expect(summaries.length).toBeGreaterThan(5)
    expect(new Set(summaries.map(({ text }) => text)).size).toBe(summaries.length)
    const { messages } = (await user.get(`/messages/${sessionId}`)).body
    const words = messages.filter(({ type }: { type: string }) => type === 'human')
    expect(words.map(({ content }: { content: string }) => content)).toEqual([
      ...Array.from({ length: turns }, (_, nth) => kilobyte(nth + 1)),
      'hi',
    ])
    expect(JSON.stringify(messages)).not.toContain('Summary of the conversation')
  }, 900_000)

  it('is never refused where MODEL_CONTEXT_WINDOW says it, and starts anew in between', async () => {
    const { provider, app } = await withProvider(
      { window: 8000 },
      { ...where, MODEL_CONTEXT_WINDOW: '8000' },
    )
    readsInEachTurn(provider)
    const user = await app.user()
    let sessionId: string | undefined
    for (let nth = 1; nth <= turns; nth++) {
      const said = await user.say(kilobyte(nth), { sessionId })
      ;({ sessionId } = said)
      expect(said.status, `turn ${nth}`).toBe('finished')
      // The next process knows the conversation from the journal alone.
      if (nth % 40 === 0) await app.again()
    }
    expect(provider.refusals).toEqual([])
    for (const request of provider.requests) expectWhole(request)
    const summaries = provider.requests.filter(isSummaryRequest)
    expect(new Set(summaries.map(({ text }) => text)).size).toBe(summaries.length)
    // What was summarised before the start is not read again.
    expect(summaries.at(-1)?.text).not.toContain('Turn 10:')
  }, 900_000)
})
