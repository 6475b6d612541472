import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testApp } from '#core/testing'
import { demoModel } from '../../plugins/models-demo/demo-model.ts'
import memory from '../../plugins/memory/index.ts'
import payments from '../../plugins/payments/index.ts'
import preferences from '../../plugins/preferences/index.ts'
import queryGateway from '../../plugins/query-gateway/index.ts'
import registry from '../../plugins/registry/index.ts'
import sampling from '../../plugins/sampling/index.ts'
import { descriptorFile, startLedger } from '../../plugins/query-gateway/fixtures/ledger.ts'
import { conversation, type ToyPlugin } from '../support/conversation.ts'
import { answered } from '../support/model-of.ts'

const now = () => new Date('2030-01-01T12:00:00Z') // a Tuesday
const model = demoModel({ wordsPerSecond: Infinity, now })

const office: ToyPlugin = {
  name: 'office',
  summary: 'Reminders, meetings, weather and deliveries.',
  visibility: 'always',
  tools: {
    remind_me: {
      description: 'Reminds the user of something at a time.',
      input: z.object({ text: z.string().optional(), at: z.iso.datetime() }),
    },
    book_room: {
      description: 'Books a room on a day.',
      input: z.object({ day: z.iso.date(), from: z.iso.time().optional() }),
    },
    get_weather: {
      description: 'Weather in a city.',
      input: z.object({ city: z.string(), date: z.iso.date().optional() }),
    },
    order_stove: {
      description: 'Orders a stove.',
      input: z.object({
        fuel: z.union([
          z.literal('a1').describe('burns gas from a bottle'),
          z.literal('b2').describe('burns wood and charcoal'),
          z.literal('c3').describe('runs on electric current'),
        ]),
      }),
    },
    pay_bill: {
      description: 'Pays a bill.',
      effect: 'read',
      input: z.object({
        by: z.discriminatedUnion('kind', [
          z.object({ kind: z.literal('card'), number: z.string() }).describe('By card'),
          z.object({ kind: z.literal('phone'), phone: z.string() }).describe('By mobile phone'),
        ]),
      }),
    },
  } as ToyPlugin['tools'],
}

const called = async (...said: string[]) => {
  const chat = conversation(model, [office])
  let calls: readonly (readonly [string, unknown])[] = []
  for (const sentence of said) calls = (await chat.say(sentence)).calls
  return calls.at(-1)
}

describe('the demonstration model', () => {
  it.each([
    ['Remind me tomorrow at 5 pm', { at: '2030-01-02T17:00:00Z' }],
    [
      'Remind me tomorrow at 5 pm to call the clinic',
      { text: 'call the clinic', at: '2030-01-02T17:00:00Z' },
    ],
    ['Remind me at 17:30 today', { at: '2030-01-01T17:30:00Z' }],
    ['Remind me on Friday at 9', { at: '2030-01-04T09:00:00Z' }],
    ['Remind me at noon on Tuesday', { at: '2030-01-08T12:00:00Z' }],
    ['Remind me at 8 am', { at: '2030-01-02T08:00:00Z' }],
    ['Remind me in two hours', { at: '2030-01-01T14:00:00Z' }],
    ['Remind me at 2030-02-03T04:05:06Z', { at: '2030-02-03T04:05:06Z' }],
    ['Remind me on 2030-02-03 at 4:05 pm', { at: '2030-02-03T16:05:00Z' }],
  ])('fills a date-time from "%s"', async (sentence, args) => {
    expect(await called(sentence)).toMatchObject(['remind_me', args])
  })

  it('fills a day and a time each as its format asks', async () => {
    expect(await called('Book a room tomorrow at 5 pm')).toEqual([
      'book_room',
      { day: '2030-01-02', from: '17:00:00' },
    ])
  })

  it('asks for a time of which the clock has none', async () => {
    expect(await called('Remind me tomorrow at 25:00')).not.toMatchObject([
      'remind_me',
      { at: /25/ },
    ])
  })

  it('counts days and hours in the time zone of the message', async () => {
    const parameters = z.toJSONSchema(office.tools.remind_me!.input) as Record<string, unknown>
    const zones = { 'Africa/Lusaka': '15:00', 'America/New_York': '22:00', 'Nowhere/Else': '17:00' }
    for (const [zone, hour] of Object.entries(zones)) {
      const { toolCalls } = await answered(
        model.stream({
          messages: [
            {
              role: 'system',
              content: `You are an oracle.\n\nToday is Tuesday, 1 January 2030 (${zone}).`,
            },
            { role: 'user', id: 'u', content: 'Remind me tomorrow at 5 pm' },
          ],
          tools: [{ name: 'remind_me', description: 'Reminds the user.', parameters }],
          signal: new AbortController().signal,
        }),
      )
      expect(toolCalls).toMatchObject([{ args: { at: `2030-01-02T${hour}:00Z` } }])
    }
  })

  it('chooses a value by the words of its description', async () => {
    expect(await called('Order a stove for wood')).toEqual(['order_stove', { fuel: 'b2' }])
    expect(await called('Order an electric stove')).toEqual(['order_stove', { fuel: 'c3' }])
    expect(await called('Order a stove of the type a1')).toEqual(['order_stove', { fuel: 'a1' }])
    expect(await called('Order a stove')).toBeUndefined()
  })

  it('chooses one of several objects by its words', async () => {
    expect(await called('Pay the bill by mobile phone +260971234567')).toEqual([
      'pay_bill',
      { by: { kind: 'phone', phone: '+260971234567' } },
    ])
  })

  it('takes "and in Paris?" as the last call with one change', async () => {
    const lusaka = 'What is the weather in Lusaka tomorrow?'
    expect(await called(lusaka)).toEqual(['get_weather', { city: 'Lusaka', date: '2030-01-02' }])
    expect(await called(lusaka, 'and in Paris?')).toEqual([
      'get_weather',
      { city: 'Paris', date: '2030-01-02' },
    ])
    expect(await called(lusaka, 'And today?')).toEqual([
      'get_weather',
      { city: 'Lusaka', date: '2030-01-01' },
    ])
    expect(await called(lusaka, 'and in Paris?', 'What about Berlin?')).toEqual([
      'get_weather',
      { city: 'Berlin', date: '2030-01-02' },
    ])
    // What names another tool is a request of its own, and what says nothing new is none.
    expect(await called(lusaka, 'And order a stove for wood')).toMatchObject(['order_stove', {}])
  })

  it('says what a call cost as an estimate', async () => {
    const usages: unknown[] = []
    const asked = { messages: [{ role: 'user', id: 'u', content: 'Hello' }], tools: [] } as const
    const { signal } = new AbortController()
    for await (const delta of model.stream({ ...asked, signal }))
      if (delta.type === 'usage') usages.push(delta)
    expect(usages).toMatchObject([{ inputTokens: 2, estimated: true }])
  })

  it('fills an object by its schema, from the words and else with the plainest values', async () => {
    const schema = z.object({
      city: z.string(),
      at: z.iso.datetime(),
      people: z.int().min(1),
      mood: z.enum(['calm', 'glad']),
      tags: z.array(z.string()).min(1),
      inner: z.object({ done: z.boolean(), note: z.string().min(3).max(5) }),
      left: z.string().optional(),
    })
    const request = {
      messages: [{ role: 'user', id: 'u', content: 'A glad evening in Lusaka tomorrow at 7 pm' }],
      tools: [],
      signal: new AbortController().signal,
      settings: { object: { name: 'evening', schema: z.toJSONSchema(schema) } },
    } as const
    const { content } = await answered(model.stream(request))
    const value = JSON.parse(content)
    expect(schema.parse(value)).toEqual(value)
    expect(value).toMatchObject({ city: 'Lusaka', at: '2030-01-02T19:00:00Z', mood: 'glad' })
  })
})

describe('a value that does not fit', () => {
  it('is not put into a field for want of another: the field is asked for', async () => {
    await using app = await testApp({ plugins: [sampling], model })
    const user = await app.user()
    await user.granted('sampling/*')
    const question = 'What is the sample size for 1000 stoves with mean 0.8 and SD 0.5?'
    const asked = await user.say(question)
    expect(asked.text).toMatch(/I still need: projectId \(.*\); dropoutRate \(.*\)\./)
    const { sessionId } = asked
    const said = await user.say('did:ixo:entity:stoves, dropout 0.1', { sessionId })
    expect(said.of('tool_call').at(-1)).toMatchObject({
      status: 'done',
      args: { projectId: 'did:ixo:entity:stoves', population: 1000, dropoutRate: 0.1 },
    })
  })
})

describe('a list that a tool gave', () => {
  it('names the method of the ledger that a question is about', { timeout: 60_000 }, async () => {
    const ledger = await startLedger()
    try {
      await using app = await testApp({
        // Both have entities; the question says which of them is asked.
        plugins: [registry, queryGateway],
        model,
        env: { GATEWAY_UPSTREAM: ledger.address, GATEWAY_DESCRIPTORS: descriptorFile },
      })
      const states = async () => (await app.get('/health')).body.plugins
      await expect.poll(states, { timeout: 30_000 }).toMatchObject({ 'query-gateway': 'available' })
      const user = await app.user()
      const said = await user.say('How many tokens does ledger1q2w3e4r5t6y hold?')
      expect(said.text).toMatch(/amount 1250/)
      expect(said.tools).toEqual([
        'list_capabilities',
        'load_capability',
        'query_ledger',
        'query_ledger',
      ])
      expect(said.of('tool_call').at(-1)).toMatchObject({ status: 'done' })
      expect(said.text).toMatch(/amount 1250/)
      const { sessionId } = said
      const entity = await user.say('Ask the ledger for the entity did:x:entity:1')
      expect(entity.of('tool_call').at(-1)).toMatchObject({
        toolName: 'query_ledger',
        args: { method: 'ledger.v1.EntityQuery.Entity', request: { id: 'did:x:entity:1' } },
        status: 'done',
      })
      expect(entity.text).toContain('id did:x:entity:1')
      const again = await user.say('And of stranger9z8y7x6w5?', { sessionId })
      expect(again.text).toMatch(/no account stranger9z8y7x6w5/)
    } finally {
      await ledger.close()
    }
  })

  it('fills the field of another tool that its entries have', async () => {
    const done: unknown[] = []
    const projects = definePlugin({
      name: 'projects',
      summary: 'Projects and their reports.',
      visibility: 'always',
      tools: {
        list_projects: {
          description: 'Lists projects.',
          effect: 'read',
          input: z.object({}),
          run: () => [
            { projectId: 'p-17', title: 'Clean water' },
            { projectId: 'p-18', title: 'Warm stoves' },
          ],
        },
        get_project_report: {
          description: 'The report of a project.',
          effect: 'read',
          input: z.object({ projectId: z.string() }),
          run: ({ projectId }) => (
            done.push(projectId),
            { report: `All is well in ${projectId}.` }
          ),
        },
      },
    })
    await using app = await testApp({ plugins: [projects], model })
    const said = await (await app.user()).say('List the projects and their report on warm stoves')
    expect(said.tools).toContain('list_projects')
    expect(done).toEqual(['p-18'])
    expect(said.text).toMatch(/All is well in p-18/)
  })

  it('understands what a page proposes to say first', async () => {
    const plugins = [memory, payments, preferences, registry]
    await using app = await testApp({ plugins, model })
    const user = await app.user()
    const language = await user.say('Please answer in Swahili from now on.')
    expect(language.tools).toContain('set_user_preferences')
    expect((await user.get('/user-preferences')).body.userPreferences).toEqual({
      language: 'Swahili',
    })
    expect((await user.say('What do I owe you?')).tools).toContain('get_account')
    await user.say('Call me Amina and speak to me in French')
    expect((await user.get('/user-preferences')).body.userPreferences).toEqual({
      language: 'French',
      userName: 'Amina',
    })
  })

  it.each([
    ['Shorter answers, please.', { length: 'short' }],
    ['Be brief', { length: 'short' }],
    ['longer answers please', { length: 'long' }],
    ['Speak more formally', { formality: 'formal' }],
    ['please be a little less formal with me', { formality: 'casual' }],
    ['Could you be more friendly?', { tone: 'friendly' }],
    [
      'Be formal and brief, and answer in French',
      { formality: 'formal', length: 'short', language: 'French' },
    ],
  ])('keeps how somebody wants to be answered, for "%s"', async (said, kept) => {
    await using app = await testApp({ plugins: [memory, payments, preferences, registry], model })
    const user = await app.user()
    const { tools, text } = await user.say(said)
    expect(tools.filter((name) => name !== 'list_capabilities')).toEqual(['set_user_preferences'])
    expect((await user.get('/user-preferences')).body.userPreferences).toEqual(kept)
    expect(text).toContain('the sentences of my rules stay as they are')
  })

  it('takes no feeling and no reproach for a name', async () => {
    await using app = await testApp({ plugins: [memory, payments, preferences, registry], model })
    const user = await app.user()
    for (const said of ['I am sad', 'you are wrong', 'I am tired of this']) await user.say(said)
    expect((await user.get('/user-preferences')).body.userPreferences).toEqual({})
    await user.say('I am Amina')
    expect((await user.get('/user-preferences')).body.userPreferences).toEqual({
      userName: 'Amina',
    })
  })
})
