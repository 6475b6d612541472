import { expect, it } from 'vitest'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

const proposed = (quote: string, text: string, slot?: string, value?: string) => ({
  message: 1,
  quote,
  text,
  kind: 'fact',
  about: 'me',
  ...(slot !== undefined && { slot, value }),
})

await onEachDatabase('evidence', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl)

  it('keeps nothing out of a result, the system prompt, the answer of the model or a recalled memory', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'has a pinkish bicycle' })
    open.replies.push(call('recall', { query: 'bicycle' }), 'You are 41 and live in Kitwe.')
    const asked = 'Which bicycle do I have these days?'
    const before = await open.counts()
    open.notices(
      `\\"person\\":\\"${asked}`,
      // the model's own last answer
      proposed('You are 41 and live in Kitwe.', 'is 41', 'age', '41'),
      proposed('live in Kitwe', 'lives in Kitwe', 'home', 'Kitwe'),
      // the result of a tool, and the memory that it recalled
      proposed('has a pinkish bicycle', 'has a pinkish bicycle'),
      proposed('"text":"has a pinkish bicycle"', 'owns a pinkish bicycle'),
      // the system prompt
      proposed('What this person told you before', 'told you before'),
      proposed('[m1] "has a pinkish bicycle"', 'has a pinkish bicycle (fact)'),
      // the person's own question, answered by the recalled memory
      proposed('Which bicycle do I have', 'has a pinkish bicycle'),
    )
    const { sessionId, tools } = await user.say(asked)
    expect(tools).toEqual(['recall'])
    await open.quiet(user, sessionId)
    const reading = open.model.requests.findLast(({ messages }) =>
      JSON.stringify(messages).includes('You read what a person said'),
    )
    expect(JSON.stringify(reading)).toContain(asked)
    expect(JSON.stringify(reading)).not.toContain('What this person told you before')
    const after = await open.counts()
    const counted = (what: string) => (after[what] ?? 0) - (before[what] ?? 0)
    expect(counted('refused:no-evidence')).toBe(6)
    expect(counted('refused:invented') + counted('refused:unreal')).toBe(1)
    expect([counted('kept:new'), counted('kept:confirmed')]).toEqual([0, 0])
    expect(await open.texts(user, '?history=true')).toEqual(['has a pinkish bicycle'])
  })
})
