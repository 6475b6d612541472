import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { assemble } from '../../core/runtime/model/assemble.ts'
import { demoModel } from '../../plugins/models-demo/demo-model.ts'
import type { Message } from '../../core/plugin.ts'
import { conversation, type ToyPlugin } from '../support/conversation.ts'
import { ask } from '../support/model-request.ts'

const did = z.string().regex(/^did:[a-z0-9]+:.+$/)

const weather: ToyPlugin = {
  name: 'weather',
  summary: 'Current weather and forecast for any city.',
  tags: ['weather', 'temperature'],
  tools: {
    get_current_weather: {
      description: 'Temperature and conditions in a city right now.',
      input: z.object({ city: z.string().min(1).describe('City name, e.g. "Lusaka"') }),
      run({ city }) {
        if (city === 'Atlantis')
          throw { code: 'NOT_FOUND', message: 'No place is called "Atlantis".', hint: 'Check it.' }
        if (city === 'Offline') throw { code: 'UPSTREAM_FAILED', message: 'the network is down' }
        return { ok: true, city, temp_c: 21.5, conditions: 'clear sky', latitude: -15.4 }
      },
    },
    get_weather_forecast: {
      description: 'Forecast for a city for up to 7 days.',
      input: z.object({ city: z.string(), days: z.number().int().min(1).max(7).default(3) }),
      run: ({ city, days }) => ({
        city,
        days: Array.from({ length: days }, (_, n) => ({ day: n + 1, max_c: 30 - n })),
      }),
    },
  },
}
const surveys: ToyPlugin = {
  name: 'surveys',
  summary: 'Sample sizes for household surveys.',
  tags: ['sample', 'statistics'],
  tools: {
    calculate_sample_size: {
      description: 'Computes a robust sample size for a survey.',
      input: z.object({
        projectId: did.describe('DID of the project').optional(),
        population: z.number().int().describe('Size of the household population'),
        confidence: z.number().max(1).default(0.95),
        precision: z.number().max(1).default(0.05),
        expectedMean: z.number(),
        expectedSD: z.number().describe('Standard deviation'),
        dropoutRate: z.number().max(1).describe('Fraction that drops out').default(0),
      }),
      run: () => ({ calculatedSize: 120, adjustedSize: 134 }),
    },
  },
}
const twins: ToyPlugin = {
  name: 'twins',
  summary: 'Digital twins: entities and their protocols.',
  tags: ['entity', 'did'],
  tools: {
    get_entity: { description: 'Reads one entity by its DID.', input: z.object({ did }) },
    create_entity: {
      description: 'Instantiates an entity of a protocol.',
      input: z.object({
        type: z.string(),
        protocol: did.describe('DID of the protocol'),
        properties: z.record(z.string(), z.unknown()),
      }),
    },
    list_entities: {
      description: 'Lists entities, by type.',
      input: z.object({ type: z.string().optional() }),
      run: () => [],
    },
  },
}
const manners: ToyPlugin = {
  name: 'manners',
  visibility: 'always',
  summary: 'How the user wants to be talked to.',
  tools: {
    set_manners: {
      description: 'Remembers how the user wants the agent to behave.',
      input: z.object({
        agentName: z.string().nullish(),
        userName: z.string().nullish(),
        language: z.string().nullish(),
        formality: z.enum(['formal', 'informal']).nullish(),
      }),
    },
  },
}
const library: ToyPlugin = {
  name: 'library',
  summary: 'Books: find, borrow and return them.',
  tools: {
    find_book: {
      description: 'Finds books by title or author.',
      input: z.object({ title: z.string().optional(), author: z.string().optional() }),
      run: () => [{ title: 'Emma', year: 1815 }],
    },
    borrow_book: {
      description: 'Borrows a book for some days.',
      input: z.object({
        title: z.string(),
        days: z.number().int().min(1),
        reminders: z.boolean().default(false),
      }),
    },
  },
}
const notes: ToyPlugin = {
  name: 'notes',
  summary: 'Short notes to remember things by.',
  tools: {
    add_note: { description: 'Writes a note down.', input: z.object({ text: z.string() }) },
    list_notes: { description: 'All notes.', input: z.object({}), run: () => ['milk', 'Ana'] },
    delete_note: { description: 'Deletes a note.', input: z.object({ id: z.number() }) },
  },
}
const office: ToyPlugin = {
  name: 'office',
  summary: 'Meetings, e-mail and money.',
  tags: ['meeting', 'email', 'convert'],
  tools: {
    schedule_meeting: {
      description: 'Schedules a meeting with people.',
      input: z.object({
        date: z.iso.date(),
        people: z.array(z.string()).min(1),
        online: z.boolean().default(false),
        minutes: z.number().int().default(30),
      }),
    },
    send_email: {
      description: 'Sends an email.',
      input: z.object({ to: z.email(), subject: z.string(), body: z.string() }),
    },
    convert_amount: {
      description: 'Converts an amount of money.',
      input: z.object({
        amount: z.number(),
        from: z.enum(['USD', 'EUR', 'ZMW']),
        to: z.enum(['USD', 'EUR', 'ZMW']),
      }),
    },
  },
}

const model = demoModel({ wordsPerSecond: Infinity, now: () => new Date('2030-01-01T12:00:00Z') })
let chat: ReturnType<typeof conversation>
beforeEach(() => {
  chat = conversation(model, [weather, surveys, twins, manners, library, notes, office])
})
const list = ['list_capabilities', {}] as const
const load = (...names: string[]) => ['load_capability', { names }] as const

describe('a question that a plugin can answer', () => {
  it('goes from the list to the plugin to the tool to a sentence', async () => {
    const { calls, answer } = await chat.say('What is the weather in Lusaka?')
    expect(calls).toEqual([list, load('weather'), ['get_current_weather', { city: 'Lusaka' }]])
    expect(answer).toMatch(/demonstration model/)
    expect(answer).toMatch(
      /For Lusaka I got temperature 21\.5 °C, conditions clear sky and latitude -15\.4\.$/,
    )
  })

  it('goes straight to the tool when it is there', async () => {
    await chat.say('What is the weather in Lusaka?')
    const { calls, answer } = await chat.say('Now tell me the weather in Nairobi')
    expect(calls).toEqual([['get_current_weather', { city: 'Nairobi' }]])
    expect(answer).not.toMatch(/demonstration model/)
  })

  it('takes arguments that are written out, as a form or a developer does', async () => {
    const talk = conversation(demoModel(), [weather, surveys])
    const { calls } = await talk.say(
      'Call calculate_sample_size with {"population":5000,"expectedMean":0.8,"expectedSD":0.2,"projectId":"did:x:a and b"}',
    )
    expect(calls.at(-1)).toEqual([
      'calculate_sample_size',
      { population: 5000, expectedMean: 0.8, expectedSD: 0.2, projectId: 'did:x:a and b' },
    ])
  })

  it('reads a length of time in the unit of the field, and the words that are to be told', async () => {
    const reminders: ToyPlugin = {
      name: 'reminders',
      summary: 'Reminds people of what they ask for.',
      tools: {
        remind_me: {
          description: 'Reminds the user of something in some minutes.',
          input: z.object({
            text: z.string().describe('What to remind of, e.g. "call the clinic"'),
            minutes: z.number().positive().describe('In how many minutes'),
          }),
          run: () => 'ok',
        },
      },
    }
    for (const [said, minutes, text] of [
      ['remind me in one minute to call the clinic', 1, 'call the clinic'],
      ['Please remind me to water the plants in 5 minutes.', 5, 'water the plants'],
      ['Remind me in two hours to eat', 120, 'eat'],
      ['Remind me to take 2 tablets within an hour', 60, 'take 2 tablets'],
    ] as const) {
      const { calls } = await conversation(demoModel(), [reminders]).say(said)
      expect(calls.at(-1), said).toEqual(['remind_me', { minutes, text }])
    }
  })

  it.each(['what', 'about', 'todo', 'reminder'])(
    'reads the words that are to be told into a field named %s',
    async (name) => {
      const reminders: ToyPlugin = {
        name: 'reminders',
        summary: 'Reminds people of what they ask for.',
        tools: {
          remind_me: {
            description: 'Reminds the user in some minutes.',
            input: z.object({ [name]: z.string().min(1).max(300), minutes: z.number().min(0) }),
            run: () => 'ok',
          },
        },
      }
      const said = 'Remind me in one minute to call the clinic'
      const { calls } = await conversation(demoModel(), [reminders]).say(said)
      expect(calls.at(-1)).toEqual(['remind_me', { [name]: 'call the clinic', minutes: 1 }])
    },
  )

  it('is the same every time', async () => {
    const once = await chat.say('Borrow "Emma" for 3 days')
    const again = await conversation(model, [library, weather, notes, manners]).say(
      'Borrow "Emma" for 3 days',
    )
    expect(again).toEqual(once)
  })

  it('works with five hundred plugins it has never heard of', async () => {
    const many = Array.from({ length: 500 }, (_, n): ToyPlugin => {
      const word = `zorb${n.toString(26).replace(/\d/g, (digit) => 'qrstuvwxyz'[Number(digit)]!)}`
      return {
        name: word,
        summary: `Everything about ${word}.`,
        tools: { [`get_${word}`]: { description: `Reads ${word}.`, input: z.object({}) } },
      }
    })
    const wanted = many[321]!.name
    const { calls } = await conversation(model, many).say(`Show me the ${wanted}`)
    expect(calls).toEqual([list, load(wanted), [`get_${wanted}`, {}]])
  })

  it.each([
    ['a failure with a hint', 'Atlantis', 'No place is called "Atlantis". Check it.'],
    ['a failure without', 'Offline', 'The network is down.'],
  ])('ends in a human sentence after %s', async (_, city, told) => {
    const { answer } = await chat.say(`What is the weather in ${city}?`)
    expect(answer).toMatch(/I asked get_current_weather, but it did not work: /)
    expect(answer).toContain(told)
    expect(answer).not.toMatch(/[{}]|NOT_FOUND|UPSTREAM/)
  })

  it('says so when nothing fits, and invents nothing', async () => {
    const { calls, answer } = await chat.say('What is the capital of France?')
    expect(calls).toEqual([list])
    expect(answer).toMatch(/I found nothing here that does this, and I do not make answers up\./)
  })
})

describe('several requests in one message', () => {
  it('load their plugins at once and run their tools at once', async () => {
    const { calls, answer } = await chat.say(
      'What is the weather in Lusaka and what is the sample size for 5000 households with mean 2 and sd 1?',
    )
    expect(calls).toEqual([
      list,
      load('weather', 'surveys'),
      ['get_current_weather', { city: 'Lusaka' }],
      ['calculate_sample_size', { population: 5000, expectedMean: 2, expectedSD: 1 }],
    ])
    expect(answer).toMatch(/For Lusaka I got .* I got calculated size 120 and adjusted size 134\.$/)
  })

  it('may be one tool twice', async () => {
    const { calls } = await chat.say('What is the weather in Lusaka and Nairobi?')
    expect(calls.slice(2)).toEqual([
      ['get_current_weather', { city: 'Lusaka' }],
      ['get_current_weather', { city: 'Nairobi' }],
    ])
  })

  it('ask for what one of them lacks when the other is done', async () => {
    await chat.say('What is the weather in Lusaka and how do I borrow a book?')
    const { calls, answer } = await chat.say('What is the weather in Ndola and borrow a book')
    expect(calls).toEqual([['get_current_weather', { city: 'Ndola' }]])
    expect(answer).toMatch(/For Ndola I got .* To use borrow_book I still need: title; days\./)
  })
})

describe('arguments', () => {
  /** The last call for a sentence, when the tools are there. */
  const called = async (sentence: string) => (await chat.say(sentence)).calls.at(-1)

  it.each([
    ['What is the weather in New York?', { city: 'New York' }],
    ['weather in new york today', { city: 'new york' }],
    ['How is the weather in "Ouagadougou"?', { city: 'Ouagadougou' }],
    ["What's the weather in St. John's?", { city: "St. John's" }],
    ['Tell me the weather in São Paulo, please', { city: 'São Paulo' }],
    ['Weather for Rio de Janeiro', { city: 'Rio de Janeiro' }],
    ['Lusaka weather', { city: 'Lusaka' }],
    ['Hello, what is the weather in Kabwe?', { city: 'Kabwe' }],
  ])('of "%s" hold the place', async (sentence, args) => {
    expect(await called(sentence)).toEqual(['get_current_weather', args])
  })

  it.each([
    ['Forecast for Lusaka for 5 days', { city: 'Lusaka', days: 5 }],
    ['The three day forecast for Lusaka', { city: 'Lusaka', days: 3 }],
    ['Forecast for Lusaka', { city: 'Lusaka' }],
  ])('of "%s" hold the number of days', async (sentence, args) => {
    expect(await called(sentence)).toEqual(['get_weather_forecast', args])
  })

  const sample = { population: 12000, expectedMean: 2.5, expectedSD: 1.1 }
  it.each([
    [
      'Sample size for 12,000 households with an expected mean of 2.5 and a standard deviation of 1.1',
      sample,
    ],
    ['sample size: population=12000 expectedMean=2.5 expectedSD=1.1', sample],
    ['Compute a sample with sd 1.1, mean 2.5, population 12k', sample],
    [
      'Sample size for 12000 households, mean 2.5, sd 1.1, confidence 95%, precision 5% and a dropout rate of 7 percent',
      { ...sample, confidence: 0.95, precision: 0.05, dropoutRate: 0.07 },
    ],
    [
      'Sample size for project did:ixo:entity:abc.1, 12000 households, mean 2.5, sd 1.1',
      { ...sample, projectId: 'did:ixo:entity:abc.1' },
    ],
  ])('of "%s" hold each number in its place', async (sentence, args) => {
    expect(await called(sentence)).toEqual(['calculate_sample_size', args])
  })

  it.each([
    ['Show me the entity did:ixo:entity:abc123.', 'get_entity', { did: 'did:ixo:entity:abc123' }],
    [
      'Create an entity of type stove with protocol did:ixo:protocol:1 and properties colour=red size=5',
      'create_entity',
      { type: 'stove', protocol: 'did:ixo:protocol:1', properties: { colour: 'red', size: 5 } },
    ],
    [
      'Create an entity of type "gas stove" with protocol did:ixo:protocol:1 and {"colour":"red"}',
      'create_entity',
      { type: 'gas stove', protocol: 'did:ixo:protocol:1', properties: { colour: 'red' } },
    ],
    ['List entities', 'list_entities', {}],
    ['List the entities of type sensor', 'list_entities', { type: 'sensor' }],
    ['Convert 120.50 USD to EUR', 'convert_amount', { amount: 120.5, from: 'USD', to: 'EUR' }],
    ['Convert to ZMW 9 from EUR', 'convert_amount', { amount: 9, from: 'EUR', to: 'ZMW' }],
    [
      'Borrow "Things Fall Apart" for 14 days with reminders',
      'borrow_book',
      { title: 'Things Fall Apart', days: 14, reminders: true },
    ],
    [
      'Borrow "Emma" for 2 days without reminders',
      'borrow_book',
      { title: 'Emma', days: 2, reminders: false },
    ],
    ['Find books by author Jane Austen', 'find_book', { author: 'Jane Austen' }],
    ['Note that I like green tea', 'add_note', { text: 'I like green tea' }],
    ['Add a note: buy milk', 'add_note', { text: 'buy milk' }],
    ['Delete note 7', 'delete_note', { id: 7 }],
    ['Show my notes', 'list_notes', {}],
    [
      'Schedule a meeting with Ana, Ben and Chipo on 2030-02-03 for 45 minutes',
      'schedule_meeting',
      { date: '2030-02-03', people: ['Ana', 'Ben', 'Chipo'], minutes: 45 },
    ],
    [
      'Schedule an online meeting with Ana tomorrow',
      'schedule_meeting',
      { date: '2030-01-02', people: ['Ana'], online: true },
    ],
    [
      'Send an email to ana@example.org with subject "Hello" and body "See you soon"',
      'send_email',
      { to: 'ana@example.org', subject: 'Hello', body: 'See you soon' },
    ],
    [
      'Call me Ana and answer in a formal tone',
      'set_manners',
      { userName: 'Ana', formality: 'formal' },
    ],
    ['Call yourself Max', 'set_manners', { agentName: 'Max' }],
    ['Please be more informal', 'set_manners', { formality: 'informal' }],
    ['Set my language to French', 'set_manners', { language: 'French' }],
  ])('are read from "%s"', async (sentence, tool, args) => {
    expect(await called(sentence)).toEqual([tool, args])
  })
})

describe('what it cannot read', () => {
  it('it asks for, and the next message answers', async () => {
    const asked = await chat.say('What is the weather?')
    expect(asked.answer).toMatch(
      /To use get_current_weather I still need: city \(City name, e\.g\. "Lusaka"\)\. What should it be\?$/,
    )
    const { calls } = await chat.say('new york, please')
    expect(calls).toEqual([['get_current_weather', { city: 'new york' }]])
  })

  it('may be answered piece by piece', async () => {
    await chat.say('Create an entity')
    expect((await chat.say('stove')).answer).toMatch(/still need: protocol .*; properties\./)
    const { calls } = await chat.say('did:ixo:protocol:9, colour=red')
    expect(calls).toEqual([
      [
        'create_entity',
        { type: 'stove', protocol: 'did:ixo:protocol:9', properties: { colour: 'red' } },
      ],
    ])
  })

  it('may be answered with several values at once, by name or by order', async () => {
    await chat.say('I need a sample size for 12,000 households')
    expect((await chat.say('mean 3, sd 1.5')).calls).toEqual([
      ['calculate_sample_size', { population: 12000, expectedMean: 3, expectedSD: 1.5 }],
    ])
    await chat.say('Borrow a book')
    expect((await chat.say('Emma, 5')).calls).toEqual([['borrow_book', { title: 'Emma', days: 5 }]])
  })

  it('may be taken back', async () => {
    await chat.say('What is the weather?')
    const { calls, answer } = await chat.say('never mind')
    expect(calls).toEqual([])
    expect(answer).toBe('All right.')
    expect((await chat.say('Nairobi')).calls).not.toContainEqual([
      'get_current_weather',
      { city: 'Nairobi' },
    ])
  })
})

describe('talk', () => {
  it('is not taken for an answer', async () => {
    await chat.say('What is the weather?')
    expect(await chat.say('thanks!')).toEqual({ calls: [], answer: 'You are welcome.' })
  })

  it('says what it is in its first answer, and only then', async () => {
    expect((await chat.say('Hello')).answer).toMatch(/^I am the demonstration model: .*\n\nHello\./)
    expect((await chat.say('thanks')).answer).toBe('You are welcome.')
  })

  it.each([
    'who are you?',
    'are you real?',
    'Are you ChatGPT?',
    'are you a human?',
    'What model are you?',
    'How do I set a key?',
    'How does this work?',
    'Qui es-tu ?',
    'Wewe ni nani?',
  ])('says that it is no person and no language model when it is asked "%s"', async (said) => {
    const { calls, answer } = await chat.say(said)
    expect(calls).toEqual([])
    expect(answer).toMatch(/no person, and no language model\..* set MODEL and the key/s)
  })

  it.each([
    ['Jambo', /Hello\. .*my own sentences are English/],
    ['Habari yako?', /Hello\. .*my own sentences are English/],
    ['Bonjour', /Hello\. .*my own sentences are English/],
    ['Asante sana', /You are welcome\. .*my own sentences are English/],
    ['merci beaucoup', /You are welcome\. .*my own sentences are English/],
    ['yes', /I have no question open\./],
    ['yes please', /I have no question open\./],
    ['no thanks', /All right\.$/],
    ['stop', /All right\.$/],
    ['sorry', /nothing to be sorry for/],
    ['test', /I am here\./],
    ['why?', /I follow fixed rules/],
    ['you are wrong', /I follow fixed rules/],
    ['😀', /I read words, and find none in this\./],
    ['I am sad', /I do not make answers up/],
    ['Nini maana ya maisha?', /I do not make answers up/],
  ])('calls no tool for "%s"', async (said, answered) => {
    const { calls, answer } = await chat.say(said)
    expect(calls.filter(([name]) => name !== 'list_capabilities')).toEqual([])
    expect(answer).toMatch(answered)
  })

  it.each(['Unaweza kufanya nini?', 'Que peux-tu faire ?', 'Can you help me?', 'help please'])(
    'lists what there is for "%s"',
    async (said) => {
      expect((await chat.say(said)).answer).toContain('library: Books: find')
    },
  )

  it('says in each answer without a finding how a real model is had', async () => {
    await chat.say('Hello')
    const { answer } = await chat.say('What is the capital of France?')
    expect(answer).toMatch(/I am a demonstration model; .* set MODEL and the key/)
  })

  it('lists what there is when it is asked', async () => {
    const { calls, answer } = await chat.say('What can you do?')
    expect(calls).toEqual([list])
    expect(answer).toContain('library: Books: find, borrow and return them.')
  })

  it('loads a plugin by its name and says what it offers', async () => {
    const { calls, answer } = await chat.say('Load the library plugin')
    expect(calls).toEqual([list, load('library')])
    expect(answer).toContain('I loaded library. It offers find_book')
  })

  it.each(['Tell me a story', 'Write an essay about trees', 'Count to 100'])(
    'answers "%s" with 400 words about itself',
    async (wish) => {
      const { calls, answer } = await chat.say(wish)
      expect(calls).toEqual([])
      expect(answer.split(/\s+/)).toHaveLength(400)
      expect(answer).toContain('I am a demonstration model.')
    },
  )
})

describe('speech', () => {
  afterEach(() => vi.useRealTimers())

  it('comes one word a delta, twenty-five a second', async () => {
    vi.useFakeTimers()
    const words: string[] = []
    const speaking = assemble(demoModel().stream(ask('Hello')), (delta) => {
      if (delta.type === 'text') words.push(delta.text)
    })
    await vi.advanceTimersByTimeAsync(39)
    expect(words).toHaveLength(0)
    await vi.advanceTimersByTimeAsync(1)
    expect(words).toEqual(['I'])
    await vi.advanceTimersByTimeAsync(360)
    expect(words).toHaveLength(10)
    for (const word of words) expect(word.trim()).toMatch(/^\S+$/)
    await vi.runAllTimersAsync()
    vi.useRealTimers()
    expect((await speaking).content).toBe(words.join(''))
  })

  it('stops between two words when it is told to', async () => {
    const reason = new Error('Stop')
    const stop = new AbortController()
    let said = 0
    const speaking = assemble(
      demoModel({ wordsPerSecond: 100 }).stream(ask('Tell me a story', [], stop.signal)),
      () => ++said === 3 && stop.abort(reason),
    )
    await expect(speaking).rejects.toBe(reason)
    expect(said).toBe(3)
    const before = demoModel().stream(ask('Hello', [], AbortSignal.abort(reason)))
    await expect(assemble(before)).rejects.toBe(reason)
  })
})

describe('odd input', () => {
  const answered = async (messages: readonly Message[], tools: unknown[] = []) =>
    await assemble(model.stream(ask(messages, tools as never)))

  it.each(['', ' ', '???', '🎉', '42', '{"a":', '((((', 'a'.repeat(5000), '\u0000\ud800'])(
    'such as %j gets an answer',
    async (said) => {
      expect((await chat.say(said)).answer).not.toBe('')
    },
  )

  it('of 256 KiB is read in its beginning', async () => {
    const long = `What is the weather in Lusaka? ${'blah "x and {[ (Aa. '.repeat(12_000)}`
    const { calls } = await chat.say(long)
    expect(calls).toContainEqual(['get_current_weather', { city: 'Lusaka' }])
  })

  it('in the schemas of tools is survived', async () => {
    const parameters: object[] = [
      {},
      {
        type: 'object',
        properties: { constructor: { type: 'string' } },
        required: ['constructor'],
      },
      { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } },
      {
        type: 'object',
        properties: { node: { $ref: '#/$defs/n' } },
        required: ['node'],
        $defs: {
          n: { type: 'object', properties: { node: { $ref: '#/$defs/n' } }, required: ['node'] },
        },
      },
      {
        type: 'object',
        properties: { zap: { type: 'string', pattern: '(a+)+$' } },
        required: ['zap'],
      },
      { type: 'object', properties: { zap: { type: 'string', pattern: '(' } }, required: ['zap'] },
    ]
    for (const [n, schema] of parameters.entries()) {
      const tools = [{ name: 'zap_it', description: 'Zaps.', parameters: schema }]
      const said = [{ role: 'user' as const, id: 'u', content: `zap it ${'a'.repeat(40)}! ${n}` }]
      const reply = await answered(said, tools)
      expect(reply.content || reply.toolCalls[0]?.name).toBeTruthy()
    }
  })

  it('from the kernel tools ends in words', async () => {
    const user: Message = { role: 'user', id: 'u', content: 'What is the weather in Lusaka?' }
    const call = { id: 'c', name: 'list_capabilities', args: {} }
    const asking: Message = { role: 'assistant', id: 'a', content: '', toolCalls: [call] }
    const tools = [{ name: 'list_capabilities', description: 'x', parameters: {} }]
    for (const [content, failed] of [
      ['no JSON', false],
      ['{"plugins":[]}', false],
      ['It broke.', true],
    ] as const) {
      const result: Message = {
        role: 'tool',
        id: 't',
        toolCallId: 'c',
        name: call.name,
        content,
        failed,
      }
      const reply = await answered([user, asking, result], tools)
      expect(reply.toolCalls).toEqual([])
      expect(reply.content).not.toBe('')
    }
  })
})
