import { ChatOpenAI } from '@langchain/openai'
import { HumanMessage, ToolMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import OpenAI from 'openai'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import openaiApi from './index.ts'

const counted: string[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has tools.',
  visibility: 'always',
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
      approve: true,
      run: ({ what }) => {
        counted.push(what)
        return 'wiped'
      },
    },
  },
})

const shelf = definePlugin({
  name: 'shelf',
  summary: 'Has things.',
  visibility: 'on-demand',
  tools: { reach: { description: 'Reaches.', input: z.object({}), run: () => 'a book' } },
})

type Env = Readonly<Record<string, string>>

async function open(steps: readonly ScriptedStep[], env: Env = {}) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [openaiApi, own, shelf], model, env })
  const user = await app.user()
  const keyOf = async (of = user) => String((await of.post('/keys', { name: 'a client' })).body.key)
  const apiKey = await keyOf()
  const clientOf = (key: string, headers: Env = {}) =>
    new OpenAI({
      baseURL: `${app.url}/openai/v1`,
      apiKey: key,
      maxRetries: 0,
      defaultHeaders: headers,
    })
  return {
    model,
    app,
    user,
    apiKey,
    keyOf,
    clientOf,
    client: (headers?: Env) => clientOf(apiKey, headers),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

const says = (content: string) => ({ role: 'user' as const, content })
const heard = (request: { messages: readonly { role: string; content: string }[] } | undefined) =>
  (request?.messages ?? [])
    .filter(({ role, content }) => (role === 'user' || role === 'assistant') && content !== '')
    .map(({ content }) => content)

const functions = [
  {
    type: 'function' as const,
    function: {
      name: 'look_up',
      description: 'Looks a thing up.',
      parameters: { type: 'object', properties: { what: { type: 'string' } } },
    },
  },
  { type: 'function' as const, function: { name: 'send', parameters: { type: 'object' } } },
]

await onEachDatabase('the openai package', ({ databaseUrl }) => {
  const env: Env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test('lists models, answers whole and in pieces, with usage', async () => {
    const usage = { inputTokens: 5, outputTokens: 2 }
    await using at = await open(
      [
        { text: 'Hello there.', usage },
        { reasoning: 'Hm.', text: ['Hello ', 'again.'], usage },
        [call('count')],
        { text: 'It is 41.', usage },
      ],
      env,
    )
    const client = at.client()
    const ids = (await client.models.list()).data.map(({ id }) => id)
    expect(ids).toEqual(['oracle', 'oracle-plain', 'oracle/scripted'])
    expect(await client.models.retrieve('oracle/scripted')).toMatchObject({ id: 'oracle/scripted' })
    const { body } = await at.user.get('/openai/v1/models/oracle-plain')
    expect(body).toMatchObject({ id: 'oracle-plain', object: 'model' })
    const plain = await client.chat.completions.create({
      model: 'oracle',
      messages: [{ role: 'system', content: 'Be brief.' }, says('Hello')],
      temperature: 0.2,
    })
    expect(plain).toMatchObject({
      object: 'chat.completion',
      choices: [{ finish_reason: 'stop', message: { role: 'assistant', content: 'Hello there.' } }],
      usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
    })
    const [system] = at.model.requests[0]?.messages ?? []
    expect(system?.content).toContain('The application says:\nBe brief.')
    const stream = await client.chat.completions.create({
      model: 'oracle/scripted',
      messages: [says('Hello'), { role: 'assistant', content: 'Hello there.' }, says('And again')],
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('')).toBe(
      'Hello again.',
    )
    expect(JSON.stringify(chunks)).toContain('"reasoning_content":"Hm."')
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop')
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { total_tokens: 7 } })
    expect(heard(at.model.requests[1])).toEqual(['Hello', 'Hello there.', 'And again'])
    const include = { stream_options: { include_steps: true } as object }
    const steps = await client.chat.completions.create({
      model: 'oracle',
      messages: [says('Count')],
      stream: true,
      ...include,
    })
    let told = ''
    for await (const chunk of steps) told += JSON.stringify(chunk.choices[0]?.delta)
    expect(told).toContain('Uses count …')
    expect((await at.user.get('/sessions')).body.total).toBe(0)
  })

  test('carries out its own tools: two in one step, one with an error, and a whole loop', async () => {
    await using at = await open(
      [
        [call('look_up', { what: 'tea' }), call('count'), call('send')],
        'Tea is a drink, and 41.',
        call('look_up', { what: 'rice' }),
        call('look_up', { what: 'beans' }),
        'Both are food.',
      ],
      env,
    )
    const client = at.client()
    const messages: OpenAI.ChatCompletionMessageParam[] = [says('Look')]
    const ask = () =>
      client.chat.completions.create({ model: 'oracle', messages, tools: functions })
    const first = await ask()
    const [choice] = first.choices
    expect(choice?.finish_reason).toBe('tool_calls')
    const calls = choice?.message.tool_calls ?? []
    expect(calls).toMatchObject([
      { type: 'function', function: { name: 'look_up', arguments: '{"what":"tea"}' } },
      { type: 'function', function: { name: 'send', arguments: '{}' } },
    ])
    messages.push(choice!.message)
    for (const { id } of calls)
      messages.push({ role: 'tool', tool_call_id: id, content: `Result of ${id.slice(0, 4)}` })
    const second = await ask()
    expect(second.choices[0]?.message.content).toBe('Tea is a drink, and 41.')
    const read = at.model.requests[1]?.messages.filter(({ role }) => role === 'tool')
    expect(read?.map(({ content }) => content).toSorted()).toEqual([
      'Result of call',
      'Result of call',
      '{"counted":41}',
    ])
    // Handed in once more, the same results find the same answer.
    expect((await ask()).choices[0]?.message.content).toBe('Tea is a drink, and 41.')
    const other = at.clientOf(await at.keyOf(await at.app.user()))
    await expect(
      other.chat.completions.create({ model: 'oracle', messages }),
    ).rejects.toMatchObject({ status: 400, param: 'tool_call_id' })

    const asked: string[] = []
    const runner = client.chat.completions.runTools({
      model: 'oracle',
      stream: true,
      messages: [says('What are rice and beans?')],
      tools: [
        {
          type: 'function',
          function: {
            name: 'look_up',
            description: 'Looks a thing up.',
            parse: JSON.parse,
            parameters: { type: 'object', properties: { what: { type: 'string' } } },
            function: ({ what }: { what: string }) => {
              asked.push(what)
              if (what === 'rice') return 'Error: there is no rice'
              return 'food'
            },
          },
        },
      ],
    })
    expect(await runner.finalContent()).toBe('Both are food.')
    expect(asked).toEqual(['rice', 'beans'])
    const told = at.model.requests.at(-1)?.messages.map(({ content }) => content)
    expect(told).toContain('Error: there is no rice')
    expect(at.model.remaining).toBe(0)
  })

  test('keeps one conversation under the client’s own id: turns, an edit, another answer', async () => {
    await using at = await open(
      [[call('count')], 'It is 41.', 'Two.', 'Three.', 'Edited.', 'Again.', 'A title', 'Other.'],
      env,
    )
    const chat = { 'X-OpenWebUI-Chat-Id': 'a chat' }
    const client = at.client(chat)
    const messages: { role: 'user' | 'assistant'; content: string }[] = []
    const say = async (content: string, of = client) => {
      const { data, response } = await of.chat.completions
        .create({ model: 'oracle', messages: [...messages, says(content)] })
        .withResponse()
      const text = data.choices[0]?.message.content ?? ''
      messages.push(says(content), { role: 'assistant', content: text })
      return { text, session: response.headers.get('x-session-id') }
    }
    const first = await say('One')
    const second = await say('Two')
    const third = await say('Three')
    expect(new Set([first, second, third].map(({ session }) => session)).size).toBe(1)
    expect(at.model.requests[3]?.messages.map(({ content }) => content).join()).toContain(
      '"counted":41',
    )
    messages.splice(2)
    const edited = await say('Two, edited')
    expect(edited.text).toBe('Edited.')
    messages.splice(2)
    const again = await say('Two, edited')
    expect(again.text).toBe('Again.')
    expect(heard(at.model.requests.at(-1))).toEqual(['One', 'It is 41.', 'Two, edited'])
    expect(new Set([first.session, edited.session, again.session]).size).toBe(3)
    const branch = (await at.user.get(`/messages/${first.session}`)).body.messages
    expect(branch.map(({ content }: { content: string }) => content).filter(Boolean)).toHaveLength(
      6,
    )
    const title = await client.chat.completions.create({
      model: 'oracle',
      messages: [says('### Task:\nGenerate a title for the chat.')],
    })
    expect(title.choices[0]?.message.content).toBe('A title')
    expect(at.model.requests.at(-1)?.tools).toEqual([])
    const before = (await at.user.get('/sessions')).body.total
    expect(before).toBe(3)
    // Another person with the same name of a conversation has another one.
    const stranger = at.clientOf(await at.keyOf(await at.app.user()), chat)
    messages.length = 0
    const elsewhere = await say('One', stranger)
    expect(elsewhere.text).toBe('Other.')
    expect(elsewhere.session).not.toBe(first.session)
  })

  test('a branch has what was loaded and nothing twice; a title in mid-answer disturbs nothing', async () => {
    const going = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    await using at = await open(
      [
        call('load_capability', { names: ['shelf'] }),
        'Loaded.',
        'Two.',
        'Edited.',
        async () => {
          begun.resolve()
          await going.promise
          return { text: ['Half and ', 'half.'] }
        },
        ...['A title', 'tags', 'follow-ups'],
      ],
      env,
    )
    const client = at.client({ 'X-OpenWebUI-Chat-Id': 'with a shelf' })
    const lines: { role: 'user' | 'assistant'; content: string }[] = []
    const say = async (content: string) => {
      const { data, response } = await client.chat.completions
        .create({ model: 'oracle', messages: [...lines, says(content)] })
        .withResponse()
      lines.push(says(content), {
        role: 'assistant',
        content: data.choices[0]?.message.content ?? '',
      })
      return response.headers.get('x-session-id')
    }
    await say('Load')
    await say('Two')
    lines.splice(2)
    const branch = await say('Two, edited')
    expect(at.model.requests.at(-1)?.tools.map(({ name }) => name)).toContain('reach')
    const { messages } = (await at.user.get(`/messages/${branch}`)).body
    const spoken = messages.map(({ content }: { content: string }) => content).filter(Boolean)
    expect(spoken).toEqual(['Load', 'Loaded.', 'Two, edited', 'Edited.'])

    const answering = say('Three')
    await begun.promise
    const aside = async (of: string, model = 'oracle') =>
      (await client.chat.completions.create({ model, messages: [...lines, says(of)] })).choices[0]
        ?.message.content
    expect(await aside('### Task:\nGenerate a title for the chat.')).toBe('A title')
    expect(await aside('### Task:\nGenerate tags.')).toBe('tags')
    expect(await aside('What may the user ask next?', 'oracle-plain')).toBe('follow-ups')
    going.resolve()
    expect(await answering).toBe(branch)
    expect(lines.at(-1)?.content).toBe('Half and half.')
    expect((await at.user.get('/sessions')).body.total).toBe(2)
    expect(at.model.remaining).toBe(0)
  })

  test('asks a person in words, who answers by the next message', async () => {
    counted.length = 0
    await using at = await open(
      [call('wipe', { what: 'logs' }), 'Wiped.', call('wipe', { what: 'more' }), 'I let it be.'],
      env,
    )
    const client = at.client({ 'X-Conversation-Id': 'wiping' })
    const messages: { role: 'user' | 'assistant'; content: string }[] = []
    const say = async (content: string) => {
      const asked = [...messages, says(content)]
      const answer = await client.chat.completions.create({ model: 'oracle', messages: asked })
      const text = answer.choices[0]?.message.content ?? ''
      messages.push(says(content), { role: 'assistant', content: text })
      return text
    }
    expect(await say('Wipe the logs')).toMatch(
      /^May I run "wipe" with .*Answer yes or no\. \[\w{8}\]$/,
    )
    expect(counted).toEqual([])
    expect(await say('Yes.')).toBe('Wiped.')
    expect(counted).toEqual(['logs'])
    expect(await say('More')).toContain('Answer yes or no.')
    expect(await say('no')).toBe('I let it be.')
    expect(counted).toEqual(['logs'])
    expect(at.model.remaining).toBe(0)
  })

  test.each(['length', 'content_filter'] as const)(
    'says that %s ended the answer: whole, in pieces, and when its key asks again after a crash',
    async (ended) => {
      await using at = await open(
        [
          { text: 'Half of', ended },
          [call('count'), call('count')],
          { text: 'And half', ended },
          { text: 'Half before a call', ended, calls: [call('count')] },
          'The rest.',
        ],
        env,
      )
      const ask = (content: string, headers: Env) =>
        at
          .client()
          .chat.completions.create({ model: 'oracle', messages: [says(content)] }, { headers })
      const streamed = async (content: string, headers: Env) => {
        const stream = await at
          .client()
          .chat.completions.create(
            { model: 'oracle', messages: [says(content)], stream: true },
            { headers },
          )
        const chunks = []
        for await (const { choices } of stream) chunks.push(choices[0])
        return chunks.at(-1)?.finish_reason
      }
      const [first, second] = [{ 'Idempotency-Key': 'first' }, { 'Idempotency-Key': 'second' }]
      expect((await ask('Tell', first)).choices[0]).toMatchObject({
        finish_reason: ended,
        message: { content: 'Half of' },
      })
      expect(await streamed('Tell on', second)).toBe(ended)
      await at.app.crash()
      await at.app.again()
      expect((await ask('Tell', first)).choices[0]?.finish_reason).toBe(ended)
      expect(await streamed('Tell on', second)).toBe(ended)
      // The last answer decides, and not one before it.
      expect((await ask('Tell all', {})).choices[0]?.finish_reason).toBe('stop')
      expect(at.model.remaining).toBe(0)
    },
  )

  test('finds the answer of an Idempotency-Key again after the server died in the middle of it', async () => {
    await using at = await open(
      [{ text: 'The whole answer.', delayMs: 300 }, 'The whole answer.'],
      {
        ...env,
        RUN_LEASE_MS: '1000',
      },
    )
    const headers = { 'Idempotency-Key': 'once-only' }
    const ask = () =>
      at
        .client()
        .chat.completions.create({ model: 'oracle', messages: [says('Tell')] }, { headers })
    const cut = ask().catch(() => 'cut')
    await expect.poll(() => at.model.requests.length).toBe(1)
    await at.app.crash()
    expect(await cut).toBe('cut')
    await at.app.again()
    expect((await ask()).choices[0]?.message.content).toBe('The whole answer.')
    expect((await ask()).choices[0]?.message.content).toBe('The whole answer.')
    expect(at.model.requests).toHaveLength(2)
    await expect(
      at
        .client()
        .chat.completions.create({ model: 'oracle', messages: [says('Else')] }, { headers }),
    ).rejects.toMatchObject({ status: 422 })
  })

  test.each([false, true])(
    'begins anew for the Idempotency-Key of what failed at once, streamed: %s',
    async (stream) => {
      const away = () => new RuntimeError('MODEL_UNAVAILABLE', 'Not now.', { status: 503 })
      await using at = await open([away(), away(), 'Here I am.'], env)
      const ask = async () => {
        const body = { model: 'oracle', stream, messages: [says('Tell')] }
        const headers = { authorization: `Bearer ${at.apiKey}`, 'Idempotency-Key': 'again' }
        const { status, body: answer } = await at.app.post(
          '/openai/v1/chat/completions',
          body,
          headers,
        )
        return [status, JSON.stringify(answer).includes('Here')]
      }
      expect(await ask()).toEqual([503, false])
      expect(await ask()).toEqual([503, false])
      expect(await ask()).toEqual([200, true])
      expect(await ask()).toEqual([200, true])
      expect(at.model.requests).toHaveLength(3)
    },
  )
})

test('a client that leaves stops the model, and nothing else does', async () => {
  const seen: string[] = []
  const begun = Promise.withResolvers<void>()
  const stopped = Promise.withResolvers<void>()
  await using at = await open([
    ({ signal }) => {
      signal.addEventListener('abort', () => {
        seen.push('the model is stopped')
        stopped.resolve()
      })
      begun.resolve()
      // This answer has no end of its own.
      return stopped.promise.then(() => 'Too late.')
    },
  ])
  const controller = new AbortController()
  const stream = await at
    .client()
    .chat.completions.create(
      { model: 'oracle', messages: [says('Go on')], stream: true },
      { signal: controller.signal },
    )
  const reading = (async () => {
    for await (const _ of stream);
  })().catch(() => undefined)
  await begun.promise
  expect(seen).toEqual([])
  seen.push('the client leaves')
  controller.abort()
  await Promise.all([reading, stopped.promise])
  expect(seen).toEqual(['the client leaves', 'the model is stopped'])
})

test('refusals come as the package’s own errors', async () => {
  await using at = await open([new Error('down'), new Error('down'), 'Up again.'], {
    TURNS_PER_DAY: '3',
  })
  const ask = (client: OpenAI, model = 'oracle') =>
    client.chat.completions.create({ model, messages: [says('Hello')] })
  await expect(ask(at.clientOf('ok_wrong'))).rejects.toMatchObject({
    constructor: OpenAI.AuthenticationError,
    code: 'invalid_api_key',
  })
  await expect(ask(at.client(), 'gpt-5')).rejects.toMatchObject({
    constructor: OpenAI.NotFoundError,
    code: 'model_not_found',
    param: 'model',
  })
  await expect(at.client().models.retrieve('gpt-5')).rejects.toMatchObject({
    code: 'model_not_found',
  })
  await expect(at.client().embeddings.create({ model: 'x', input: 'x' })).rejects.toMatchObject({
    status: 404,
    error: { type: 'not_found_error' },
  })
  // A model that fails at once is a status, also of a stream, so that the package tries again by itself.
  await expect(ask(at.client())).rejects.toBeInstanceOf(OpenAI.InternalServerError)
  const patient = new OpenAI({
    baseURL: `${at.app.url}/openai/v1`,
    apiKey: at.apiKey,
    maxRetries: 1,
  })
  const stream = await patient.chat.completions.create({
    model: 'oracle',
    messages: [says('Hello')],
    stream: true,
  })
  let text = ''
  for await (const { choices } of stream) text += choices[0]?.delta.content ?? ''
  expect(text).toBe('Up again.')
  const limited = await ask(at.client()).catch((error) => error)
  expect(limited).toBeInstanceOf(OpenAI.RateLimitError)
  expect(limited.code).toBe('rate_limit_exceeded')
  expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0)
})

test('what cannot be is refused, and names its field', async () => {
  await using at = await open([])
  const refusal = async (body: unknown) => {
    const answer = await fetch(`${at.app.url}/openai/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${at.apiKey}`, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    const { error } = z
      .object({ error: z.looseObject({ param: z.unknown() }) })
      .parse(await answer.json())
    expect(error).toMatchObject({ message: expect.any(String), type: expect.any(String) })
    return [answer.status, error.param]
  }
  const asking = (rest: object) => ({ model: 'oracle', messages: [says('Hello')], ...rest })
  const last = (message: object) => asking({ messages: [message] })
  const tools = (...list: object[]) =>
    asking({ tools: list.map((each) => ({ type: 'function', function: each })) })
  expect(await refusal('not json')).toEqual([400, null])
  expect(await refusal('[]')).toEqual([400, null])
  expect(await refusal('['.repeat(65) + ']'.repeat(65))).toEqual([400, null])
  expect(
    await refusal('{"model":"oracle","messages":[{"role":"user","content":"a\\u0000"}]}'),
  ).toEqual([400, null])
  expect(await refusal('{"__proto__":{},"model":"oracle"}')).toEqual([400, null])
  expect(await refusal(`"${'x'.repeat(4 * 1024 * 1024)}"`)).toEqual([413, null])
  expect(await refusal({ messages: [] })).toEqual([400, 'model'])
  expect(await refusal(asking({ messages: [] }))).toEqual([400, 'messages'])
  expect(await refusal(asking({ messages: [{ role: 'system', content: 'a' }] }))).toEqual([
    400,
    'messages',
  ])
  expect(await refusal(last({ role: 'assistant', content: 'a' }))).toEqual([400, 'messages'])
  expect(await refusal(last({ role: 'robot', content: 'a' }))).toEqual([400, 'messages.0.role'])
  expect(await refusal(last({ role: 'user', content: '  ' }))).toEqual([400, 'messages.0.content'])
  expect(await refusal(last({ role: 'user', content: [{ type: 'hologram' }] }))).toEqual([
    400,
    'messages.0.content.0',
  ])
  const remote = { type: 'image_url', image_url: { url: 'https://example.org/a.png' } }
  expect(await refusal(last({ role: 'user', content: [remote] }))).toEqual([
    400,
    'messages.0.content.0',
  ])
  expect((await refusal(last(says('x'.repeat(300 * 1024)))))[0]).toBe(400)
  expect((await refusal(asking({ messages: Array(100_000).fill({ role: 'user' }) })))[0]).toBe(400)
  expect(await refusal(last({ role: 'tool', tool_call_id: 'call_1', content: 'a' }))).toEqual([
    400,
    'messages.0.tool_call_id',
  ])
  const unknown = `call_${'0'.repeat(32)}_a`
  expect(await refusal(last({ role: 'tool', tool_call_id: unknown, content: 'a' }))).toEqual([
    400,
    'tool_call_id',
  ])
  const twice = { role: 'tool', tool_call_id: unknown, content: 'a' }
  expect(await refusal(asking({ messages: [twice, twice] }))).toEqual([
    400,
    'messages.0.tool_call_id',
  ])
  for (const [field, value] of Object.entries({
    tool_choice: 'required',
    n: 2,
    logprobs: true,
    response_format: { type: 'json_object' },
    functions: [],
    audio: {},
  }))
    expect(await refusal(asking({ [field]: value }))).toEqual([400, field])
  expect((await refusal(tools({ name: 'count' })))[0]).toBe(400)
  expect((await refusal(tools({ name: 'a b' })))[0]).toBe(400)
  expect((await refusal(tools({ name: 'a' }, { name: 'a' })))[0]).toBe(400)
  expect(
    await refusal(tools(...Array.from({ length: 201 }, (_, i) => ({ name: `t${i}` })))),
  ).toEqual([400, 'tools'])
  expect(
    (await refusal(tools({ name: 'a', parameters: { type: 'object', x: 'y'.repeat(33_000) } })))[0],
  ).toBe(400)
  expect(await refusal(asking({ metadata: { session_id: 'x'.repeat(10_000) } }))).toEqual([
    400,
    'session_id',
  ])
  expect(at.model.requests).toHaveLength(0)
  expect((await at.user.get('/sessions')).body.total).toBe(0)
})

test('ChatOpenAI of LangChain: invoke, stream, bindTools and a loop of two tools', async () => {
  await using at = await open([
    'Hello.',
    { text: ['One ', 'two.'] },
    call('add', { a: 1, b: 2 }),
    call('double', { n: 3 }),
    'It is 6.',
  ])
  const chat = new ChatOpenAI({
    model: 'oracle',
    apiKey: at.apiKey,
    configuration: { baseURL: `${at.app.url}/openai/v1` },
  })
  expect((await chat.invoke('Hello')).content).toBe('Hello.')
  let text = ''
  for await (const chunk of await chat.stream('Count')) text += chunk.content
  expect(text).toBe('One two.')
  const add = tool(({ a, b }) => String(a + b), {
    name: 'add',
    description: 'Adds.',
    schema: z.object({ a: z.number(), b: z.number() }),
  })
  const double = tool(({ n }) => String(n * 2), {
    name: 'double',
    description: 'Doubles.',
    schema: z.object({ n: z.number() }),
  })
  const bound = chat.bindTools([add, double])
  const messages: (HumanMessage | ToolMessage | Awaited<ReturnType<typeof bound.invoke>>)[] = [
    new HumanMessage('Add 1 and 2, and double it.'),
  ]
  for (let step = 0; step < 5; step++) {
    const said = await bound.invoke(messages)
    messages.push(said)
    if (!said.tool_calls?.length) break
    for (const { id = '', name, args } of said.tool_calls) {
      const content =
        name === 'add' ? await add.invoke(args as never) : await double.invoke(args as never)
      messages.push(new ToolMessage({ tool_call_id: id, content }))
    }
  }
  expect(messages.at(-1)?.content).toBe('It is 6.')
  expect(at.model.remaining).toBe(0)
})
