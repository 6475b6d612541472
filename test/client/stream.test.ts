import { expect, it } from 'vitest'
import { streamBench, streamBudget } from '../../bench/client/stream.ts'
import { describeWith } from '../support/services.ts'

await describeWith('chromium', 'a reply that streams into a real browser', (executablePath) => {
  it('costs one commit in fifty milliseconds, not one for each token', async () => {
    const options = { executablePath, rounds: 1, only: ['library'] as const }
    const { library } = await streamBench({ ...options, tokens: 600 })
    expect(library.commits).toBeGreaterThan(2)
    // 2,000 tokens in ten seconds may have 210; a busy machine takes longer, and has as many more.
    const perSecond = streamBudget.commits / 10
    expect(library.commits).toBeLessThanOrEqual(Math.ceil(library.seconds * perSecond) + 5)
  }, 120_000)
})
