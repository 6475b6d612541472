import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { type AskableModel, definePlugin, type OfferedModels } from '#core'
import { call } from '#core/testing'
import { onEachDatabase } from '../../../test/support/each-database.ts'
import { OpenMemory } from '../../../test/support/open-memory.ts'

const page = definePlugin({
  name: 'page',
  summary: 'Reads a page.',
  visibility: 'always',
  tools: {
    read_page: {
      description: 'Reads the page.',
      effect: 'read',
      input: z.object({}),
      run: () => 'The user lives in Mansa and has a purple lorry.',
    },
  },
})
const fact = (quote: string, text: string, slot?: string, value?: string) => ({
  message: 1,
  quote,
  text,
  kind: 'fact',
  ...(slot !== undefined && { slot, value }),
})

await onEachDatabase('what a model invents', ({ databaseUrl }) => {
  const open = new OpenMemory({}, databaseUrl, [page])

  it('is counted by its reason, each one, and nothing of it is kept', async () => {
    const user = await open.user()
    await user.post('/memory', { text: 'has a pinkish bicycle' })
    const said = 'I keep 12 goats and I work a lot. What stands on that page?'
    const answer = 'You are 41, and the page tells of a purple lorry.'
    const proposals = {
      'an age': [fact('I work a lot', 'is 41 years old', 'age', '41'), 'invented'],
      'an employer': [fact('I work a lot', 'works for Zamtel', 'employer', 'Zamtel'), 'invented'],
      'a number changed by one': [
        fact('I keep 12 goats', 'keeps 13 goats', 'pet', '13 goats'),
        'invented',
      ],
      'a quote that was never said': [
        fact('I live in Kitwe', 'lives in Kitwe', 'home', 'Kitwe'),
        'no-evidence',
      ],
      'the last answer': [fact('You are 41', 'is 41', 'age', '41'), 'no-evidence'],
      'the result of a tool': [
        fact('lives in Mansa and has a purple lorry', 'has a purple lorry'),
        'no-evidence',
      ],
      'the system prompt': [
        fact('What this person told you before', 'told you something before'),
        'no-evidence',
      ],
      'a recalled memory': [fact('has a pinkish bicycle', 'has a pinkish bicycle'), 'no-evidence'],
    } as const
    for (const [what, [proposal, reason]] of Object.entries(proposals)) {
      const words = `${said} (${what})`
      open.replies.push(call('read_page'), answer)
      open.notices(`page? (${what})`, proposal)
      const before = await open.counts()
      const { sessionId, tools } = await user.say(words)
      expect([what, tools]).toEqual([what, ['read_page']])
      await open.quiet(user, sessionId)
      const after = await open.counts()
      const counted = Object.keys(after).filter((name) => after[name] !== before[name])
      expect([what, counted.toSorted()]).toEqual([what, ['model-calls', `refused:${reason}`]])
      expect(after[`refused:${reason}`]).toBe((before[`refused:${reason}`] ?? 0) + 1)
      expect(await open.texts(user, '?history=true')).toEqual(['has a pinkish bicycle'])
      open.forgetReadings()
    }
    // The same words, told as they were said, are kept: what was refused above was refused for what it is.
    open.notices('one more', fact('I keep 12 goats', 'keeps 12 goats', 'pet', '12 goats'))
    await open.quiet(user, (await user.say('I keep 12 goats, one more than you think.')).sessionId)
    expect(await open.texts(user)).toEqual(['keeps 12 goats', 'has a pinkish bicycle'])
  }, 300_000)

  it('makes no memory, and confirms none, out of 1,000 turns that recall one', async () => {
    const did = `did:test:${randomUUID()}`
    const { self } = open
    const text = 'has a pinkish bicycle'
    await self.choose(did, { mode: 'on' })
    const said = { sessionId: 's', runId: 'r', quote: 'I have a pinkish bicycle', at: self.now - 1 }
    const given = { kind: 'fact', about: 'me', slot: null, value: '', text, by: 'asked' } as const
    await self.remember(did, given, said, 'ask')
    const [before] = await self.memories.all(self.db, did)
    // It proposes whatever it reads: the memories that it is told of, the answers, and the questions.
    const object: unknown = async (_schema: unknown, prompt: string) => {
      const known = [...prompt.matchAll(/"id":"m\d+","text":"([^"]+)"/g)].map(([, words]) => words)
      const turns = [...prompt.matchAll(/"message":(\d+),"person":"([^"]+)","reply":"([^"]+)"/g)]
      const at = turns.length > 0 ? Number(turns[0]?.[1]) : 1
      const quotes = [...known, turns[0]?.[3], turns[0]?.[2], 'I have a pinkish bicycle']
      const memories = quotes.map((quote) => ({
        message: at,
        quote,
        text,
        kind: 'fact',
        about: 'me',
      }))
      return { memories }
    }
    const embed: unknown = () => Promise.reject(new Error('No vectors here.'))
    const models = { embed } as OfferedModels
    const { signal } = new AbortController()
    let recalled = 0
    for (let session = 0; session < 20; session++) {
      const where = { did, sessionId: randomUUID(), room: '', shared: false }
      for (let i = 0; i < 50; i++) {
        const question = `Which bicycle do I have, of the ${session * 50 + i} that you know?`
        const block = await self.prompt(where, {
          requestId: randomUUID(),
          question,
          models,
          signal,
          lack: async () => undefined,
        })
        if (block?.includes(text)) recalled++
        const turn = { runId: randomUUID(), sessionId: where.sessionId, did, at: self.now }
        await self.hear(self.db, { ...turn, words: question, reply: `It says: ${text}.` })
      }
      await self.notice(did, where.sessionId, {
        model: { object } as AskableModel,
        signal,
        isLast: false,
      })
      expect(await self.unread(where.sessionId)).toBe(0)
    }
    expect(recalled).toBe(1_000)
    expect(await self.memories.all(self.db, did)).toEqual([before])
    expect((await self.memories.sourcesOf(self.db, did)).get(before?.id ?? '')).toHaveLength(1)
  }, 300_000)
})
