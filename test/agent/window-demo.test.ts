import { expect, it } from 'vitest'
import { testApp } from '#core/testing'

it('the demonstration model summarises a session offline, at a window of 4,000 tokens', async () => {
  await using app = await testApp({ plugins: [], env: { MODEL_CONTEXT_WINDOW: '4000' } })
  const user = await app.user()
  let sessionId: string | undefined
  const told: unknown[] = []
  for (let nth = 1; nth <= 12; nth++) {
    const said = await user.say(`Hello number ${nth}. ${'And more words follow. '.repeat(50)}`, {
      sessionId,
    })
    ;({ sessionId } = said)
    expect(said.status).toBe('finished')
    told.push(...said.of('context').map(({ kind }) => kind))
  }
  expect(told).toContain('summarised')
  expect(told).not.toContain('trimmed')
  await app.again()
  expect((await user.say('thanks', { sessionId })).text).toContain('You are welcome.')
})
