import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'
import type { SaidBefore } from '../../core/plugin.ts'
import { door } from '../support/door.ts'
import { onEachDatabase } from '../support/each-database.ts'

const says = (content: string): SaidBefore => ({ role: 'user', content })
const answers = (content: string): SaidBefore => ({ role: 'assistant', content })

const wiped: string[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has tools.',
  visibility: 'on-demand',
  tools: {
    count: {
      description: 'Counts.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: () => ({ counted: 41 }),
    },
    wipe: {
      description: 'Wipes.',
      input: z.object({ what: z.string() }),
      approve: ({ what }) => (what === 'mine' ? 'Shall I really wipe what is yours?' : true),
      run: ({ what }) => {
        wiped.push(what)
        return 'wiped'
      },
    },
  },
})

const heard = (request: { messages: readonly { role: string; content: string }[] } | undefined) =>
  (request?.messages ?? [])
    .filter(({ role }) => role === 'user' || role === 'assistant')
    .map(({ content }) => content)
    .filter((content) => content !== '')

await onEachDatabase('a history that a client brings', ({ databaseUrl }) => {
  const env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test('is the session’s, a shorter beginning of it, or stands in its place', async () => {
    const at = door()
    const chat = randomUUID()
    const model = scriptedModel([
      [call('load_capability', { names: ['own'] })],
      call('count'),
      'It is 41.',
      'Two.',
      'Three.',
      'Edited.',
      'Again.',
      'Elsewhere.',
      'First anew.',
    ])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const user = await app.user()
    const say = async (message: string, history: SaidBefore[]) => {
      const turn = at.turns.start({ user: { did: user.did }, session: chat, message, history })
      const { sessionId } = await turn.begun
      return { sessionId, ...(await turn.ended) }
    }
    const first = [says('One'), answers('It is 41.')]
    const whole = [...first, says('Two'), answers(' Two. ')]
    expect(await say('One', [])).toMatchObject({ sessionId: chat, text: 'It is 41.' })
    expect(await say('Two', first)).toMatchObject({ sessionId: chat, text: 'Two.' })
    expect(await say('Three', whole)).toMatchObject({ sessionId: chat, text: 'Three.' })
    const third = model.requests.at(-1)
    // The results of the session's own tools are known in the third turn, and what was loaded stays loaded.
    expect(third?.messages.map(({ content }) => content).join('\n')).toContain('"counted":41')
    expect(third?.tools.map(({ name }) => name)).toContain('wipe')

    const edited = await say('Two, but edited', first)
    expect(edited).toMatchObject({ text: 'Edited.' })
    expect(edited.sessionId).not.toBe(chat)
    expect(heard(model.requests.at(-1))).toEqual(['One', 'It is 41.', 'Two, but edited'])
    expect(model.requests.at(-1)?.tools.map(({ name }) => name)).toContain('wipe')
    // Answered anew: the branch before stays whole, and the model never sees the answer that was replaced.
    const anew = await say('Two, but edited', first)
    expect(new Set([chat, edited.sessionId, anew.sessionId]).size).toBe(3)
    expect(heard(model.requests.at(-1))).toEqual(['One', 'It is 41.', 'Two, but edited'])
    const texts = async (session: string) =>
      (await user.get(`/messages/${session}`)).body.messages.map(
        ({ content }: { content: string }) => content,
      )
    expect((await texts(chat)).filter(Boolean)).toEqual([
      'One',
      'It is 41.',
      'Two',
      'Two.',
      'Three',
      'Three.',
    ])
    expect((await texts(anew.sessionId)).filter(Boolean)).toEqual([
      'One',
      'It is 41.',
      'Two, but edited',
      'Again.',
    ])

    const other = await say('Four', [says('Something'), answers('quite else')])
    expect(other).toMatchObject({ sessionId: anew.sessionId, text: 'Elsewhere.' })
    expect(heard(model.requests.at(-1))).toEqual(['Something', 'quite else', 'Four'])
    const begins = await say('One', [])
    expect(heard(model.requests.at(-1))).toEqual(['One'])
    expect(await texts(begins.sessionId)).toEqual(['One', 'First anew.'])
    const listed = (await user.get('/sessions?branches=newest')).body
    expect(listed.sessions).toHaveLength(1)
    expect(model.remaining).toBe(0)
  })

  test('of a turn for itself is all that its model reads, and no list shows the session', async () => {
    const at = door()
    const chat = randomUUID()
    const model = scriptedModel(['A title.', 'B'])
    await using app = await testApp({ plugins: [at.plugin], model, env, clock: true })
    const user = await app.user()
    const history = [says('Hello'), answers('Hi.')]
    const turn = at.turns.start({
      user: { did: user.did },
      message: 'Name it',
      history,
      ephemeral: true,
      allow: [],
      requestId: 'e-1',
    })
    expect(await turn.ended).toMatchObject({ status: 'finished', text: 'A title.' })
    const { sessionId } = await turn.begun
    expect(heard(model.requests[0])).toEqual(['Hello', 'Hi.', 'Name it'])
    expect(model.requests[0]?.tools).toEqual([])
    expect((await user.get('/sessions')).body).toMatchObject({ sessions: [], total: 0 })
    const again = at.turns.start({
      user: { did: user.did },
      message: 'Name it',
      history,
      ephemeral: true,
      allow: [],
      requestId: 'e-1',
    })
    expect(await again.ended).toMatchObject({ text: 'A title.' })
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(200)
    await app.clock.advance('2h')
    expect((await user.get(`/messages/${sessionId}`)).status).toBe(404)
    await expect(
      at.turns.start({ user: { did: user.did }, message: 'x', ephemeral: true, session: 'a' })
        .begun,
    ).rejects.toMatchObject({ code: 'INPUT_INVALID' })
  })

  test('waits for the end of a run under way', async () => {
    const at = door()
    const chat = randomUUID()
    const model = scriptedModel([{ text: ['Slow', 'ly.'], paceMs: 200, delayMs: 100 }, 'Next.'])
    await using app = await testApp({ plugins: [at.plugin], model, env })
    const user = { did: (await app.user()).did }
    const first = at.turns.start({ user, session: chat, message: 'One', history: [] })
    await first.begun
    const second = at.turns.start({
      user,
      session: chat,
      message: 'Two',
      history: [says('One'), answers('Slowly.')],
    })
    expect((await first.ended).status).toBe('finished')
    expect(await second.ended).toMatchObject({ status: 'finished', text: 'Next.' })
    expect((await second.begun).sessionId).toBe(chat)
    expect(heard(model.requests[1])).toEqual(['One', 'Slowly.', 'Two'])
  })

  test('answers a question in words, once and by its own user', async () => {
    const at = door()
    const chat = randomUUID()
    wiped.length = 0
    const ask = (what: string) => [
      [call('load_capability', { names: ['own'] })],
      call('wipe', { what }),
    ]
    const model = scriptedModel([
      ...ask('logs'),
      'Wiped.',
      'Just a word.',
      call('wipe', { what: 'all' }),
      'As you say.',
      ...ask('mine'),
      'Gone.',
    ])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const user = { did: (await app.user()).did }
    const other = { did: (await app.user()).did }
    const lines: SaidBefore[] = []
    const say = async (message: string, from = user, requestId?: string) => {
      const turn = at.turns.start({
        user: from,
        session: from === user ? chat : `other-${chat}`,
        message,
        history: from === user ? lines : [],
        approvals: 'words',
        requestId,
      })
      const ended = await turn.ended
      if (from === user) lines.push(says(message), answers(ended.text))
      return ended
    }
    const asked = await say('Wipe the logs')
    expect(asked.status).toBe('waiting')
    expect(asked.text).toMatch(
      /^May I run "wipe" with \{"what":"logs"\}\? Answer yes or no\. \[[0-9a-f]{8}\]$/,
    )
    await app.crash()
    await app.again()
    expect(wiped).toEqual([])
    expect(await say('Yes.', user, 'yes-1')).toMatchObject({ status: 'finished', text: 'Wiped.' })
    expect(wiped).toEqual(['logs'])
    // The same answer once more finds what it began.
    const repeated = at.turns.start({
      user,
      session: chat,
      message: 'Yes.',
      history: lines.slice(0, 2),
      approvals: 'words',
      requestId: 'yes-1',
    })
    expect(await repeated.ended).toMatchObject({ text: 'Wiped.' })
    // A yes to which nothing stands open is a message like any other.
    expect(await say('yes')).toMatchObject({ text: 'Just a word.' })
    expect(
      (
        await at.turns.start({
          user,
          session: chat,
          message: 'wipe',
          history: lines,
          approvals: 'words',
        }).ended
      ).status,
    ).toBe('waiting')
    lines.push(says('wipe'), answers('(something that the session does not have)'))
    expect(await say('no, because I say so')).toMatchObject({
      status: 'finished',
      text: 'As you say.',
    })
    expect(wiped).toEqual(['logs'])
    // Without a session the question's code leads to the run.
    const alone = at.turns.start({
      user,
      ephemeral: true,
      message: 'Wipe mine',
      history: [],
      approvals: 'words',
    })
    const question = (await alone.ended).text
    // A tool with a sentence of its own is asked for by it first.
    expect(question).toMatch(
      /^Shall I really wipe what is yours\? May I run "wipe" with \{"what":"mine"\}\? Answer yes or no\. \[\w{8}\]$/,
    )
    const history = [says('Wipe mine'), answers(question)]
    const yes = (who: { did: string }) =>
      at.turns.start({
        user: who,
        ephemeral: true,
        message: 'ndiyo',
        history,
        approvals: 'words',
        allow: [],
      })
    expect(await yes(user).ended).toMatchObject({ status: 'finished', text: 'Gone.' })
    expect(wiped).toEqual(['logs', 'mine'])
    expect(model.remaining).toBe(0)
    expect(await yes(other).ended).not.toMatchObject({ text: 'Gone.' })
    expect(wiped).toEqual(['logs', 'mine'])
  })

  test('nobody can be asked with `approvals: false`, not even by what asks of itself', async () => {
    const at = door()
    const chat = randomUUID()
    wiped.length = 0
    const model = scriptedModel([
      [call('load_capability', { names: ['own'] })],
      call('wipe', { what: 'a' }),
      'I cannot.',
    ])
    await using app = await testApp({ plugins: [at.plugin, own], model, env })
    const user = { did: (await app.user()).did }
    const turn = at.turns.start({ user, message: 'Wipe', approvals: false })
    expect(await turn.ended).toMatchObject({ status: 'finished', text: 'I cannot.' })
    expect(wiped).toEqual([])
    const read = model.requests.at(-1)?.messages.findLast(({ role }) => role === 'tool')
    expect(read?.content).toContain('nobody can be asked here')
  })
})
