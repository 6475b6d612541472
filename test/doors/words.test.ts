import { Role } from '@a2a-js/sdk'
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Turns } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep, type TestApp } from '#core/testing'
import a2a from '../../plugins/a2a/index.ts'
import openaiApi from '../../plugins/openai-api/index.ts'
import { onEachDatabase } from '../support/each-database.ts'

const wiped: string[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has a tool.',
  visibility: 'always',
  tools: {
    wipe: {
      description: 'Wipes.',
      approve: true,
      input: z.object({ what: z.string() }),
      run: ({ what }) => (wiped.push(what), `wiped ${what}`),
    },
  },
})

/** Wipes what it is told to wipe, and says what it read last. */
const obeys: ScriptedStep = ({ messages }) => {
  const last = messages.at(-1)
  const content = String(last?.content)
  const [, what] = /^Wipe the (\w+)$/.exec(content) ?? []
  if (last?.role === 'user' && what) return call('wipe', { what })
  if (last?.role === 'tool' && content.includes('wiped first'))
    return call('wipe', { what: 'second' })
  return `Read: ${content}`
}

/** A conversation of somebody, by the client of a protocol. */
interface Conversation {
  /** Says something, and resolves to the words of the answer. */
  say(words: string): Promise<string>
}
type Open = (app: TestApp, key: string, name: string, language?: string) => Promise<Conversation>

/** Chat completions, with an id of the conversation or with nothing but the lines that the client has. */
const completions =
  (isNamed: boolean): Open =>
  async (app, apiKey, name, language) => {
    const defaultHeaders = {
      ...(isNamed && { 'X-Conversation-Id': name }),
      ...(language !== undefined && { 'Accept-Language': language }),
    }
    const messages: { role: 'user' | 'assistant'; content: string }[] = []
    return {
      async say(content) {
        const client = new OpenAI({
          ...{ baseURL: `${app.url}/openai/v1`, apiKey, maxRetries: 0, defaultHeaders },
        })
        const asked = [...messages, { role: 'user' as const, content }]
        const answer = await client.chat.completions.create({ model: 'oracle', messages: asked })
        const text = answer.choices[0]?.message.content ?? ''
        messages.push({ role: 'user', content }, { role: 'assistant', content: text })
        return text
      },
    }
  }

let sent = 0
const agents: Open = async (app, key, _, language) => {
  let contextId = ''
  const fetchImpl: typeof fetch = (url, init) => {
    const headers = new Headers(init?.headers)
    headers.set('authorization', `Bearer ${key}`)
    if (language !== undefined) headers.set('accept-language', language)
    return fetch(url, { ...init, headers })
  }
  return {
    async say(value) {
      const client = await new ClientFactory({
        transports: [new JsonRpcTransportFactory({ fetchImpl })],
        cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
      }).createFromUrl(app.url)
      const task = await client.sendMessage({
        ...{ tenant: '', metadata: undefined, configuration: undefined },
        message: {
          ...{ messageId: `m${++sent}`, contextId, taskId: '', role: Role.ROLE_USER },
          ...{ metadata: undefined, extensions: [], referenceTaskIds: [] },
          parts: [
            {
              content: { $case: 'text', value },
              ...{ metadata: undefined, filename: '', mediaType: '' },
            },
          ],
        },
      })
      if (!('status' in task)) throw new Error('It was answered without a task.')
      contextId = task.contextId
      const { artifacts, status } = task
      return [...artifacts, ...(status?.message ? [status.message] : [])]
        .flatMap(({ parts }) => parts.map(({ content }) => String(content?.value)))
        .join(' ')
    },
  }
}

const doors: Readonly<Record<string, Open>> = {
  'chat completions in a conversation': completions(true),
  'chat completions without one': completions(false),
  A2A: agents,
}

await onEachDatabase('a question in words', ({ databaseUrl }) => {
  const env: Record<string, string> = {
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
    RUN_LEASE_MS: '1000',
  }

  async function open(door: Open) {
    wiped.length = 0
    const model = scriptedModel(Array.from({ length: 20 }, () => obeys))
    const app = await testApp({ plugins: [a2a, openaiApi, own], model, env, clock: true })
    const keyOf = async () =>
      String((await (await app.user()).post('/keys', { name: 'a client' })).body.key)
    const [key, other] = [await keyOf(), await keyOf()]
    const conversation = await door(app, key, 'mine')
    const question = await conversation.say('Wipe the logs')
    const [, code = ''] =
      /May I run "wipe" with \{"what":"logs"\}\? Answer yes or no\. \[([0-9a-f]{8})\]$/.exec(
        question,
      ) ?? []
    expect([question, code]).toEqual([question, expect.stringMatching(/^.{8}$/)])
    expect(wiped).toEqual([])
    return {
      ...{ app, model, conversation, code },
      /** A conversation of the same person, or of somebody else by the same name. */
      another: (of: 'the same person' | 'somebody else') =>
        of === 'somebody else' ? door(app, other, 'mine') : door(app, key, 'another'),
      [Symbol.asyncDispose]: () => app.close(),
    }
  }

  for (const [name, door] of Object.entries(doors)) {
    test.each(['yes', 'Yes.', 'YES!', 'ndiyo', 'with its code'])(
      `by ${name}: "%s" runs it once`,
      async (words) => {
        await using at = await open(door)
        const yes = words === 'with its code' ? `yes [${at.code}]` : words
        expect(await at.conversation.say(yes)).toContain('Read: wiped logs')
        expect(wiped).toEqual(['logs'])
      },
    )

    test.each([
      'no',
      'No.',
      'no, because the logs are needed',
      'yes, but only the old ones',
      'How many are there?',
      'yes [00000000]',
    ])(`by ${name}: "%s" runs nothing, and a yes after it neither`, async (words) => {
      await using at = await open(door)
      const said = await at.conversation.say(words)
      expect(said).not.toContain('wiped logs')
      // What is more than a no is a message of its own, which the model reads.
      if (!/^no\.?$/i.test(words)) expect(said).toContain(`Read: ${words}`)
      await at.conversation.say('yes')
      expect(wiped).toEqual([])
    })

    test.each([
      [
        'fr-CD, sw;q=0.8',
        'Puis-je exécuter "wipe" avec {"what":"first"} ? Dites oui ou non.',
        'Oui',
        'non',
      ],
      [
        'en;q=0.1, sw',
        'Je, nitekeleze "wipe" kwa {"what":"first"}? Jibu ndiyo au hapana.',
        'Ndiyo.',
        'hapana',
      ],
      ['de', 'May I run "wipe" with {"what":"first"}? Answer yes or no.', 'ja', 'nein'],
      ['!!;;q', 'May I run "wipe" with {"what":"first"}? Answer yes or no.', 'yes', 'no'],
    ])(`by ${name}: a person who reads %s is asked: %s`, async (accepts, question, yes, no) => {
      wiped.length = 0
      const model = scriptedModel(Array.from({ length: 20 }, () => obeys))
      await using app = await testApp({ plugins: [a2a, openaiApi, own], model, env })
      const key = String((await (await app.user()).post('/keys', { name: 'a client' })).body.key)
      const conversation = await door(app, key, 'mine', accepts)
      const first = await conversation.say('Wipe the first')
      expect(first).toContain(`${question} [`)
      // The run that goes on after the answer asks in the same language.
      const second = await conversation.say(yes)
      expect(second).toContain(`${question.replace('first', 'second')} [`)
      expect(wiped).toEqual(['first'])
      expect(await conversation.say(no)).not.toContain('wiped')
      await conversation.say(yes)
      expect(wiped).toEqual(['first'])
    })

    test(`by ${name}: a yes of somebody else or of another conversation runs nothing`, async () => {
      await using at = await open(door)
      for (const whose of ['somebody else', 'the same person'] as const) {
        const elsewhere = await at.another(whose)
        for (const yes of ['yes', `yes [${at.code}]`])
          expect(await elsewhere.say(yes)).not.toContain('wiped logs')
      }
      expect(wiped).toEqual([])
      // The question stands as before.
      expect(await at.conversation.say('yes')).toContain('Read: wiped logs')
      expect(wiped).toEqual(['logs'])
    })

    test(`by ${name}: two of it run once, one after the other and at the same time`, async () => {
      await using at = await open(door)
      const both = await Promise.allSettled([1, 2].map(() => at.conversation.say('yes')))
      // The slower one may be told that somebody was faster.
      expect(both.some(({ status }) => status === 'fulfilled')).toBe(true)
      await at.conversation.say('yes')
      expect(wiped).toEqual(['logs'])
    })

    test(`by ${name}: an hour later, and after the server was killed, it runs once`, async () => {
      await using at = await open(door)
      at.app.clock.advance('1h')
      await at.app.crash()
      await at.app.again()
      expect(await at.conversation.say('yes')).toContain('Read: wiped logs')
      expect(wiped).toEqual(['logs'])
    })
  }
})

test('a plugin says in which language a person is asked', async () => {
  const told = Promise.withResolvers<Turns>()
  const starter = definePlugin({
    name: 'starter',
    summary: 'Starts turns.',
    visibility: 'silent',
    setup: ({ turns }) => told.resolve(turns),
  })
  const model = scriptedModel([obeys, obeys])
  await using app = await testApp({ plugins: [own, starter], model })
  const turns = await told.promise
  const asked = async (language?: string) => {
    const { did } = await app.user()
    const start = { user: { did }, message: 'Wipe the logs', approvals: 'words' } as const
    return (await turns.start({ ...start, ...(language !== undefined && { language }) }).ended).text
  }
  expect(await asked('SW-tz')).toContain('Jibu ndiyo au hapana. [')
  expect(await asked()).toContain('Answer yes or no. [')
  for (const language of ['no language', '', '*', 'x'.repeat(200)])
    await expect(asked(language)).rejects.toMatchObject({ code: 'INPUT_INVALID' })
})
