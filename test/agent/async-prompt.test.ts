import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'

const never = () => new Promise<string>(() => undefined)

/** A plugin that is always loaded, with this prompt. */
const saying = (name: string, prompt: () => string | undefined | Promise<string | undefined>) =>
  definePlugin({ name, summary: `All about ${name}.`, visibility: 'always', prompt })

const noting = definePlugin({
  name: 'noting',
  summary: 'Notes.',
  visibility: 'always',
  tools: { note: { description: 'Notes.', input: z.object({}), run: () => 'noted' } },
})

const systemsOf = ({ requests }: ReturnType<typeof scriptedModel>) =>
  requests.map(({ messages }) => messages[0]!.content)

describe('an async prompt', () => {
  it('stands where its plugin stands, whichever promise is fulfilled first', async () => {
    const first = Promise.withResolvers<string>()
    const plugins = [
      saying('a', () => first.promise),
      saying('b', () => 'Second lines.'),
      saying('c', async () => (first.resolve('First lines.'), 'Third lines.')),
    ]
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins, model })
    await (await app.user()).say('Hello')
    expect(systemsOf(model)[0]).toContain('First lines.\n\nSecond lines.\n\nThird lines.')
  })

  it('is asked once a turn and again after load_capability; one without a promise before each model call', async () => {
    const asked = { async: 0, sync: 0 }
    const plugins = [
      saying('later', async () => `Asked ${++asked.async} times.`),
      saying('now', () => `Now ${++asked.sync}.`),
      noting,
      definePlugin({ name: 'maps', summary: 'Maps.', prompt: async () => 'Maps are here.' }),
    ]
    const model = scriptedModel([
      { calls: [{ call: 'note' }] },
      { calls: [{ call: 'load_capability', args: { names: ['maps'] } }] },
      { calls: [{ call: 'note' }] },
      'Well.',
      'Again.',
    ])
    await using app = await testApp({ plugins, model })
    const user = await app.user()
    const { sessionId } = await user.say('Hello')
    await user.say('Hello again', { sessionId })
    const systems = systemsOf(model)
    const times = systems.map((system) => /Asked (\d) times/.exec(system)?.[1])
    expect(times).toEqual(['1', '1', '2', '2', '3'])
    expect(systems.map((system) => system.includes('Maps are here.'))).toEqual([
      false,
      false,
      true,
      true,
      true,
    ])
    expect(asked.sync).toBe(5)
  })

  it('is left out when it is late or rejects, with one warning each, and the turn goes on', async () => {
    const plugins = [
      saying('late', never),
      saying('torn', () => Promise.reject(new Error('no words'))),
      saying('thrown', () => {
        throw new Error('no lines')
      }),
      saying('fine', async () => 'Fine lines.'),
      noting,
    ]
    const model = scriptedModel([{ calls: [{ call: 'note' }] }, 'Well.'])
    await using app = await testApp({ plugins, model, env: { PROMPT_BUDGET_MS: '50' } })
    const said = await (await app.user()).say('Hello')
    expect(said).toMatchObject({ status: 'finished', text: 'Well.' })
    for (const system of systemsOf(model)) expect(system).toContain('Fine lines.')
    const warnings = (words: string) => app.log.filter((line) => line.includes(words))
    expect(warnings('prompt of late took longer than 50 ms')).toHaveLength(1)
    expect(warnings('prompt of torn failed')).toHaveLength(1)
    expect(warnings('prompt of thrown failed')).toHaveLength(1)
    expect(warnings('prompt of fine')).toHaveLength(0)
  })

  it('does not hold a turn that is stopped', async () => {
    const asked = Promise.withResolvers<void>()
    const stop = new AbortController()
    const statuses: unknown[] = []
    const late = saying('late', () => (asked.resolve(), never()))
    const starter = definePlugin({
      name: 'starter',
      summary: 's',
      setup({ onReady, turns }) {
        onReady(async () => {
          const user = { did: 'did:key:zAmina' }
          for await (const { event, data } of turns.start({
            user,
            message: 'Hi',
            signal: stop.signal,
          }))
            if (event === 'done') statuses.push(data.status)
        })
      },
    })
    const model = scriptedModel(['Never said.'])
    const env = { PROMPT_BUDGET_MS: '600000' }
    await using _ = await testApp({ plugins: [late, starter], model, env })
    await asked.promise
    stop.abort()
    await expect.poll(() => statuses).toEqual(['aborted'])
    expect(model.requests).toHaveLength(0)
  })

  it('counts among the bytes of its plugin', async () => {
    await using app = await testApp({ plugins: [saying('later', async () => 'Twelve bytes')] })
    const { body } = await (await app.user()).get('/capabilities')
    expect(body.plugins[0]).toMatchObject({ name: 'later', promptBytes: 12 })
  })
})
