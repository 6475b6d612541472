import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp } from '#core/testing'

const operatorToken = 'an-operator-of-the-prompt-tests'
const library = definePlugin({
  name: 'library',
  summary: 'Books.',
  visibility: 'on-demand',
  prompt: () => 'The library closes at noon.',
  tools: {
    find: {
      description: 'Finds a book.',
      effect: 'read',
      input: z.object({ title: z.string() }),
      run: ({ title }) => `found ${title}`,
    },
  },
})

const open = (env: Record<string, string> = {}) =>
  testApp({
    plugins: [library],
    instructions: 'You are a librarian.',
    model: scriptedModel([
      call('load_capability', { names: ['library'] }),
      call('find', { title: 'Maru' }),
      'Here it is.',
      'Welcome.',
    ]),
    env: { OPERATOR_TOKEN: operatorToken, ...env },
  })

interface Part {
  readonly part: string
  readonly plugin?: string
  readonly name?: string
  readonly role?: string
  readonly text?: string
  readonly bytes: number
}

it('tells in parts what the next call of the model would be sent, which then is what it is sent', async () => {
  await using app = await open()
  const user = await app.user()
  const { sessionId } = await user.say('Do you have Maru?')
  const { status, body } = await user.get(`/sessions/${sessionId}/prompt`)
  expect(status).toBe(200)
  const parts: readonly Part[] = body.parts
  expect(body.bytes).toBe(parts.reduce((sum, { bytes }) => sum + bytes, 0))
  expect(parts.filter(({ part }) => part !== 'tool' && part !== 'message')).toMatchObject([
    { part: 'kernel' },
    { part: 'persona', text: 'You are a librarian.', bytes: 20 },
    { part: 'catalogue' },
    { part: 'plugin', plugin: 'library', text: 'The library closes at noon.' },
    { part: 'day' },
  ])
  expect(parts).toContainEqual(
    expect.objectContaining({ part: 'tool', name: 'find', plugin: 'library' }),
  )
  const told = parts.filter(({ part }) => part === 'message')
  expect(told.map(({ role }) => role)).toEqual([
    ...['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant'],
  ])
  expect(told.at(-1)?.text).toBe('Here it is.')
  const model = scriptedModel(['Yes?'])
  await app.again({ model })
  const asked = await user.say('Anything else?', { sessionId })
  expect(asked.status).toBe('finished')
  const [system, ...before] = model.requests[0]?.messages ?? []
  expect(system?.content).toBe(
    parts
      .filter(({ part }) => part !== 'tool' && part !== 'message')
      .map(({ text }) => text)
      .join('\n\n'),
  )
  expect(before).toHaveLength(told.length + 1)
  expect(model.requests[0]?.tools.map(({ name }) => name)).toEqual(
    parts.filter(({ part }) => part === 'tool').map(({ name }) => name),
  )
})

it('is its user’s in development and the operator’s always, and nobody else’s', async () => {
  await using app = await open({ ORACLE_MNEMONIC: 'words of one oracle' })
  const user = await app.user('the reader')
  const { sessionId } = await user.say('Do you have Maru?')
  const path = `/sessions/${sessionId}/prompt`
  expect((await (await app.user()).get(path)).status).toBe(404)
  await using production = await app.again({
    env: {
      NODE_ENV: 'production',
      ORACLE_MNEMONIC: 'words of one oracle',
      OPERATOR_TOKEN: operatorToken,
    },
  })
  const same = await production.user('the reader')
  expect((await same.get(path)).status).toBe(403)
  const operator = await fetch(production.url + path, {
    headers: { authorization: `Bearer ${operatorToken}` },
  })
  expect(operator.status).toBe(200)
  const { parts } = (await operator.json()) as { parts: readonly Part[] }
  expect(parts.at(-1)).toMatchObject({ part: 'message', text: 'Here it is.' })
  const unknown = await fetch(`${production.url}/sessions/none/prompt`, {
    headers: { authorization: `Bearer ${operatorToken}` },
  })
  expect(unknown.status).toBe(404)
})
