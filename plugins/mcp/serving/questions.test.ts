import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type TestApp } from '#core/testing'
import { keyOf, message, send } from '../../../test/support/mcp-clients.ts'
import mcpServers, { mcpClient } from '../index.ts'

const ran: string[] = []
const form = (field: string) => ({
  method: 'elicitation/create' as const,
  params: {
    message: `What is your ${field}?`,
    requestedSchema: {
      type: 'object',
      properties: { [field]: { type: 'string' } },
      required: [field],
    },
  },
})
const accepted = (content: object) => ({ action: 'accept', content })
const textIn = (answer: unknown, field: string) =>
  z.object({ content: z.object({ [field]: z.string() }) }).safeParse(answer).data?.content[field]

const asking = definePlugin({
  name: 'asking',
  summary: 'Asks whoever calls.',
  visibility: 'always',
  tools: {
    greet: {
      description: 'Greets.',
      effect: 'read',
      foreign: false,
      input: z.object({ loud: z.boolean().default(false) }),
      output: z.object({ said: z.string() }),
      run() {
        const client = mcpClient()
        if (!client) return { said: 'Hello, whoever you are.' }
        const known = z.object({ name: z.string() }).safeParse(client.kept).data
        const name = known?.name ?? textIn(client.answers.name, 'name')
        if (name === undefined) return client.ask({ name: form('name') })
        const colour = textIn(client.answers.colour, 'colour')
        if (colour === undefined) return client.ask({ colour: form('colour') }, { name })
        return { said: `Hello, ${name} in ${colour}.` }
      },
    },
    think: {
      description: 'Has the client’s model think.',
      effect: 'read',
      input: z.object({ must: z.boolean() }),
      run({ must }) {
        const client = mcpClient()
        if (!must && !client?.can('sampling')) return 'I thought by myself.'
        const messages = [{ role: 'user', content: { type: 'text', text: 'Think.' } }]
        if (!client?.answers.thought)
          return client?.ask({
            thought: { method: 'sampling/createMessage', params: { messages, maxTokens: 9 } },
            folders: { method: 'roots/list' },
          })
        return JSON.stringify(client.answers)
      },
    },
    send: {
      description: 'Sends.',
      approve: true,
      input: z.object({ what: z.string() }),
      run({ what }) {
        const client = mcpClient()
        const to = textIn(client?.answers.to, 'to')
        if (client && to === undefined) return client.ask({ to: form('to') })
        ran.push(`${what} to ${to}`)
        return 'sent'
      },
    },
  },
})

let app: TestApp
let key: string
const model = scriptedModel([[call('greet')], 'Greeted.'])
beforeAll(async () => {
  app = await testApp({ plugins: [mcpServers, asking], model })
  key = await keyOf(await app.user(), 'tools/call')
})
afterAll(() => app?.close())

const everything = { elicitation: {}, sampling: {}, roots: {} }
const calling = async (name: string, args: object, rest: object = {}, can: object = everything) => {
  const params = { name, arguments: args, ...rest }
  const { status, body } = await send(app, key, message('tools/call', params, can))
  return { status, ...body }
}

it('a tool asks the client round by round, and keeps what it knows under a seal', async () => {
  const { result: first } = await calling('greet', {})
  expect(first).toMatchObject({
    resultType: 'input_required',
    inputRequests: { name: { method: 'elicitation/create' } },
  })
  const named = {
    requestState: first.requestState,
    inputResponses: { name: accepted({ name: 'Ada' }) },
  }
  const { result: second } = await calling('greet', {}, named)
  expect(second.inputRequests).toMatchObject({ colour: { method: 'elicitation/create' } })
  const coloured = {
    requestState: second.requestState,
    inputResponses: { colour: accepted({ colour: 'blue' }) },
  }
  const { result: third } = await calling('greet', {}, coloured)
  expect(third.structuredContent).toEqual({ said: 'Hello, Ada in blue.' })

  // Answers that are none are asked for again; a state of another call, or one that was changed, is refused.
  const answers = { inputResponses: { name: accepted({ name: 7 }), other: 1 } }
  expect((await calling('greet', {}, answers)).result).toMatchObject({
    inputRequests: { name: expect.anything() },
  })
  const [version, until, nonce, about = '', mac] = String(second.requestState).split('.')
  const forged = Buffer.from(about, 'base64url').toString().replace('Ada', 'Eve')
  const requestState = [
    ...[version, until, nonce, Buffer.from(forged).toString('base64url')],
    mac,
  ].join('.')
  const wrong = { error: { code: -32602, data: { reason: 'invalid_request_state' } } }
  expect(await calling('greet', {}, { ...coloured, requestState })).toMatchObject(wrong)
  expect(await calling('greet', { loud: true }, coloured)).toMatchObject(wrong)
})

it('a client is asked for what it has declared and for nothing else', async () => {
  const elicits = { elicitation: {} }
  expect(await calling('think', { must: true }, {}, elicits)).toMatchObject({
    status: 400,
    error: { code: -32021, data: { requiredCapabilities: { sampling: {} } } },
  })
  const { result } = await calling('think', { must: false }, {}, elicits)
  expect(result.content[0].text).toBe('I thought by myself.')
  const { result: asked } = await calling('think', { must: false })
  expect(asked.inputRequests).toMatchObject({
    thought: { method: 'sampling/createMessage', params: { maxTokens: 9 } },
    folders: { method: 'roots/list' },
  })
  const thought = { role: 'assistant', content: { type: 'text', text: 'So.' }, model: 'm' }
  const { result: told } = await calling(
    'think',
    { must: false },
    { requestState: asked.requestState, inputResponses: { thought, folders: { roots: [] } } },
  )
  expect(told.content[0].text).toContain('So.')
})

it('a tool that a person has to approve asks afterwards, and runs once', async () => {
  const yes = { approve: accepted({ approve: true }) }
  const to = { to: accepted({ to: 'Ada' }) }
  const what = { what: 'a letter' }
  // Neither question can be answered before it was asked.
  const { result: consent } = await calling('send', what, { inputResponses: { ...yes, ...to } })
  expect(consent.inputRequests).toHaveProperty('approve')
  const { result: asked } = await calling('send', what, {
    ...{ requestState: consent.requestState, inputResponses: yes },
  })
  expect(asked.inputRequests).toHaveProperty('to')
  const { requestState } = asked
  const answers = [to, to, yes].map((inputResponses) =>
    calling('send', what, { requestState, inputResponses }),
  )
  const outcomes = await Promise.all(answers)
  expect(outcomes.filter(({ error }) => error?.data?.reason === 'used_request_state')).toHaveLength(
    2,
  )
  expect(ran.length).toBeLessThanOrEqual(1)
  expect(
    await calling('send', what, { requestState: consent.requestState, inputResponses: yes }),
  ).toMatchObject({ error: { data: { reason: 'used_request_state' } } })
})

it('a client of before reads what to do, and in a turn there is no client to ask', async () => {
  const client = new Client({ name: 'before', version: '1' }, { capabilities: { elicitation: {} } })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${app.url}/mcp`), { requestInit }),
  )
  const refused = await client.callTool({ name: 'greet', arguments: {} })
  await client.close()
  expect(refused.isError).toBe(true)
  expect(JSON.stringify(refused.content)).toContain('[INPUT_NEEDED]')

  expect((await (await app.user()).say('Greet me')).text).toBe('Greeted.')
  expect(JSON.stringify(model.requests[1]?.messages)).toContain('whoever you are')
})
