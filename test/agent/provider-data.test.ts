import { randomUUID } from 'node:crypto'
import { describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { chain, definePlugin, RuntimeError, type Message } from '#core'
import { call, scriptedModel, testApp, type ScriptedModel } from '#core/testing'

const signature = { blocks: [{ type: 'thought', signature: 'sig-7f3a', at: 1 }], order: ['a', 'b'] }

const dice = definePlugin({
  name: 'dice',
  summary: 'Rolls a dice.',
  visibility: 'always',
  tools: {
    roll: { description: 'Rolls.', effect: 'read', input: z.object({}), run: () => 4 },
    bet: {
      description: 'Bets.',
      input: z.object({ on: z.number() }),
      approve: true,
      run: ({ on }) => ({ on }),
    },
  },
})

/** A step that calls a tool, and has something for its provider. */
const calls = (name: string, args?: unknown) => ({ calls: [call(name, args)], provider: signature })

/** What the assistant's messages of a request have for a provider. */
const backIn = (model: ScriptedModel, nth: number) =>
  model.requests[nth]?.messages.flatMap((message) =>
    message.role === 'assistant' ? [message.provider?.data] : [],
  )

describe('what a provider wants back', () => {
  it('comes with the next request of the same model, in the turn and after it', async () => {
    const model = scriptedModel([calls('roll'), { text: 'It is 4.', provider: 'end' }, 'Again.'])
    await using app = await testApp({ plugins: [dice], model })
    const user = await app.user()
    const { sessionId } = await user.say('Roll')
    await user.say('And again', { sessionId })
    expect(backIn(model, 1)).toEqual([signature])
    expect(backIn(model, 2)).toEqual([signature, 'end'])
  })

  it.each(['sqlite', 'postgres'] as const)(
    'survives a crash while a person is asked, and comes from the journal after it, on %s',
    async (kind) => {
      const before = scriptedModel([calls('bet', { on: 3 })])
      const after = scriptedModel(['You bet on 5.', 'Yes.'])
      const database = kind === 'postgres' ? kind : undefined
      const app = await testApp({ plugins: [dice], model: before, database })
      onTestFinished(() => app.close())
      const name = randomUUID()
      const said = await (await app.user(name)).say('Bet', { approvals: true })
      expect(said.status).toBe('waiting')
      await app.crash()
      await app.again({ model: after })
      const user = await app.user(name)
      const decided = await user.post(`/runs/${said.runId}/resume`, {
        decision: 'edit',
        args: { on: 5 },
      })
      expect(decided.status).toBeLessThan(300)
      await expect.poll(() => after.requests.length).toBe(1)
      // The call goes back as the model made it, and its result says what was changed.
      expect(backIn(after, 0)).toEqual([signature])
      const [asked] = after.requests[0]!.messages.filter(({ role }) => role === 'assistant')
      expect(asked).toMatchObject({ toolCalls: [{ args: { on: 3 } }] })
      await expect
        .poll(async () => (await user.get(`/messages/${said.sessionId}`)).body.messages.length)
        .toBeGreaterThan(2)
      await user.say('Sure?', { sessionId: said.sessionId })
      expect(backIn(after, 1)).toEqual([signature, undefined])
    },
  )

  it('goes to nobody else: not to another model, events, the history, the log', async () => {
    const one = scriptedModel([calls('roll'), 'It is 4.', 'Back.'], { id: 'one' })
    const two = scriptedModel(['I am two.'], { id: 'two' })
    await using app = await testApp({ plugins: [dice], model: [one, two] })
    const user = await app.user()
    const said = await user.say('Roll')
    const { sessionId } = said
    const other = await user.say('Who?', { sessionId, body: { model: 'two' } })
    const back = await user.say('And now?', { sessionId, body: { model: 'one' } })
    expect(backIn(two, 0)).toEqual([undefined, undefined])
    expect(backIn(one, 2)).toEqual([signature, undefined, undefined])
    const heard = [
      [said, other, back].map(({ events }) => events),
      (await user.get(`/messages/${sessionId}`)).body,
      (await user.get(`/sessions/${sessionId}/messages`)).body,
      (await user.get('/sessions')).body,
      app.log,
    ]
    expect(JSON.stringify(heard)).not.toContain('sig-7f3a')
    expect(JSON.stringify(two.requests)).not.toContain('sig-7f3a')
  })

  it('belongs to the model of a chain that answered', async () => {
    const down = new RuntimeError('MODEL_OVERLOADED', 'Busy.')
    const a = scriptedModel([calls('roll'), down, 'Mine again.'], { id: 'a' })
    const b = scriptedModel(['From b.'], { id: 'b' })
    await using app = await testApp({ plugins: [dice], model: chain([a, b]) })
    const user = await app.user()
    const { sessionId, text } = await user.say('Roll')
    expect(text).toBe('From b.')
    expect(backIn(b, 0)).toEqual([undefined])
    await user.say('Again', { sessionId })
    expect(backIn(a, 2)).toEqual([signature, undefined])
  })

  it('is left behind by a layer that rewrites the answer', async () => {
    const model = scriptedModel([{ text: 'The code is 1234.', provider: signature }, 'Yes.'])
    const censor = definePlugin({
      name: 'censor',
      summary: 'Hides codes.',
      visibility: 'always',
      middleware: {
        async model(_, next) {
          const reply = await next()
          return { ...reply, content: reply.content.replace('1234', '****') }
        },
      },
    })
    await using app = await testApp({ plugins: [censor], model })
    const user = await app.user()
    const { sessionId } = await user.say('Code?')
    await user.say('Sure?', { sessionId })
    expect(backIn(model, 1)).toEqual([undefined])
    expect((model.requests[1]?.messages.at(-2) as Message).content).toBe('The code is ****.')
  })

  it('is at most 1 MiB an answer', async () => {
    const model = scriptedModel([{ provider: 'x'.repeat(1024 * 1024) }])
    await using app = await testApp({ plugins: [], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const { body } = await user.post(`/messages/${sessionId}`, { message: 'Hi' })
    expect(body).toMatchObject({ code: 'MODEL_ANSWER_TOO_LONG' })
  })
})
