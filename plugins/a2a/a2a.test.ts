import { type Message, type Part, Role, TaskState, verifyAgentCardSignature } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { call, scriptedModel, testApp, type ScriptedStep } from '#core/testing'
import { onEachDatabase } from '../../test/support/each-database.ts'
import a2a from './index.ts'

const wiped: string[] = []
const own = definePlugin({
  name: 'own',
  summary: 'Has tools.',
  whenToUse: ['to count'],
  visibility: 'always',
  tools: {
    count: {
      description: 'Counts.',
      effect: 'read',
      foreign: false,
      input: z.object({}),
      run: (_, { emit }) => {
        emit.component('gauge', { value: 41 })
        return { counted: 41 }
      },
    },
    wipe: {
      description: 'Wipes.',
      input: z.object({ what: z.string() }),
      approve: true,
      run: ({ what }) => {
        wiped.push(what)
        return 'wiped'
      },
    },
  },
})

type Env = Readonly<Record<string, string>>

async function open(steps: readonly ScriptedStep[], env: Env = {}) {
  const model = scriptedModel(steps)
  const app = await testApp({ plugins: [a2a, own], model, env })
  const user = await app.user()
  const keyOf = async (of = user) => String((await of.post('/keys', { name: 'an agent' })).body.key)
  const clientOf = (key: string): Promise<Client> => {
    const fetchImpl: typeof fetch = (url, init) => {
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${key}`)
      return fetch(url, { ...init, headers })
    }
    return new ClientFactory({
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    }).createFromUrl(app.url)
  }
  const key = await keyOf()
  return {
    ...{ model, app, user, key, keyOf, clientOf },
    client: await clientOf(key),
    [Symbol.asyncDispose]: () => app.close(),
  }
}

let sent = 0
const text = (value: string): Part => ({
  ...{ content: { $case: 'text', value }, metadata: undefined, filename: '', mediaType: '' },
})
const says = (value: string, of: Partial<Message> = {}, returnImmediately = false) => ({
  tenant: '',
  metadata: undefined,
  configuration: {
    ...{ acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
  },
  message: {
    ...{ messageId: `m${++sent}`, contextId: '', taskId: '', role: Role.ROLE_USER },
    ...{ parts: [text(value)], metadata: undefined, extensions: [], referenceTaskIds: [] },
    ...of,
  },
})

const sentTask = z.looseObject({
  id: z.string(),
  contextId: z.string(),
  status: z.looseObject({ state: z.number(), message: z.unknown() }),
  artifacts: z.array(
    z.looseObject({
      artifactId: z.string(),
      parts: z.array(z.looseObject({ content: z.unknown() })),
    }),
  ),
})
const send = async (client: Client, ...of: Parameters<typeof says>) =>
  sentTask.parse(await client.sendMessage(says(...of)))
const answerIn = (task: z.output<typeof sentTask>) =>
  task.artifacts
    .find(({ artifactId }) => artifactId === 'answer')
    ?.parts.map(({ content }) => Object(content).value)
    .join('')
const named = (id: string) => ({ tenant: '', id, metadata: undefined })
const { TASK_STATE_COMPLETED, TASK_STATE_INPUT_REQUIRED, TASK_STATE_CANCELED, TASK_STATE_WORKING } =
  TaskState

await onEachDatabase('A2A’s own client', ({ databaseUrl }) => {
  const env: Env = databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }

  test('sends, in one context, and finds its tasks again', async () => {
    await using at = await open([[call('count')], 'It is 41.', 'Two.', 'Other.'], env)
    const first = await send(at.client, 'Count')
    expect(first.status.state).toBe(TASK_STATE_COMPLETED)
    expect(answerIn(first)).toBe('It is 41.')
    expect(JSON.stringify(first.artifacts)).toContain('gauge')
    const second = await send(at.client, 'Two', { contextId: first.contextId, messageId: 'once' })
    expect(answerIn(second)).toBe('Two.')
    const again = await send(at.client, 'Two', { contextId: first.contextId, messageId: 'once' })
    expect(again.id).toBe(second.id)
    expect(second.contextId).toBe(first.contextId)
    expect(at.model.requests.at(-1)?.messages.map(({ content }) => content)).toContain('It is 41.')
    const found = sentTask.parse(await at.client.getTask(named(first.id)))
    expect([found.id, answerIn(found)]).toEqual([first.id, 'It is 41.'])
    const list = (of: object) =>
      at.client.listTasks({
        ...{ tenant: '', contextId: '', status: 0, pageToken: '', statusTimestampAfter: undefined },
        ...of,
      })
    const { tasks } = await list({ contextId: first.contextId })
    expect(tasks.map(({ id }) => id)).toEqual([second.id, first.id])
    const page = await list({ pageSize: 1 })
    expect(page.tasks.map(({ id }) => id)).toEqual([second.id])
    const rest = await list({ pageSize: 1, pageToken: page.nextPageToken })
    expect(rest.tasks.map(({ id }) => id)).toEqual([first.id])
    expect((await list({ status: TASK_STATE_CANCELED })).tasks).toEqual([])
    const stranger = await at.clientOf(await at.keyOf(await at.app.user()))
    await expect(stranger.getTask(named(first.id))).rejects.toThrow(/no task/)
    await expect(stranger.sendMessage(says('Hi', { contextId: first.contextId }))).rejects.toThrow()
    await expect(stranger.sendMessage(says('Hi', { taskId: first.id }))).rejects.toThrow(/no task/)
    expect((await at.user.get(`/messages/${first.contextId}`)).body.messages).toHaveLength(5)
  })

  test('streams, is cut, subscribes again from the start, and cancels', async () => {
    const going = Promise.withResolvers<void>()
    let stopped = false
    await using at = await open(
      [
        async () => {
          await going.promise
          return { text: ['One ', 'two.'] }
        },
        ({ signal }) =>
          new Promise((resolve) =>
            signal.addEventListener('abort', () => {
              stopped = true
              resolve('Too late.')
            }),
          ),
      ],
      env,
    )
    const stream = at.client.sendMessageStream(says('Go'))
    const { value } = await stream.next()
    const id = value?.payload?.$case === 'task' ? value.payload.value.id : ''
    await stream.return()
    const heard: string[] = []
    const states: unknown[] = []
    const subscribed = (async () => {
      for await (const { payload } of at.client.resubscribeTask(named(id))) {
        if (payload?.$case === 'artifactUpdate')
          for (const { content } of payload.value.artifact?.parts ?? [])
            heard.push(String(content?.value))
        if (payload?.$case === 'statusUpdate') states.push(payload.value.status?.state)
        if (payload?.$case === 'task') going.resolve()
      }
    })()
    await subscribed
    expect(heard.join('')).toBe('One two.')
    expect(states).toEqual([TASK_STATE_COMPLETED])
    await expect(at.client.resubscribeTask(named(id)).next()).rejects.toThrow(/ended/)
    const open2 = await send(at.client, 'Go on', {}, true)
    expect(open2.status.state).toBe(TASK_STATE_WORKING)
    await expect.poll(() => at.model.requests.length).toBe(2)
    const cancelled = await at.client.cancelTask(named(open2.id))
    expect(cancelled.status?.state).toBe(TASK_STATE_CANCELED)
    expect(stopped).toBe(true)
    await expect(at.client.cancelTask(named(open2.id))).rejects.toThrow(/ended/)
  })

  test('asks for what is needed, and goes on in the same task', async () => {
    wiped.length = 0
    await using at = await open(
      [
        ...[
          call('wipe', { what: 'logs' }),
          'Wiped.',
          call('wipe', { what: 'more' }),
          'I let it be.',
        ],
        ...[call('wipe', { what: 'rest' }), 'Three.', call('wipe', { what: 'last' })],
      ],
      env,
    )
    const asked = await send(at.client, 'Wipe the logs')
    expect(asked.status.state).toBe(TASK_STATE_INPUT_REQUIRED)
    expect(JSON.stringify(asked.status.message)).toMatch(/May I run .* Answer yes or no/)
    expect(wiped).toEqual([])
    const { contextId } = asked
    const done = await send(at.client, 'yes', { contextId, taskId: asked.id })
    expect(done.status.state).toBe(TASK_STATE_COMPLETED)
    expect(done.id).toBe(asked.id)
    expect(answerIn(done)).toContain('Wiped.')
    expect(wiped).toEqual(['logs'])
    const more = await send(at.client, 'More', { contextId })
    const left = await send(at.client, 'no', { contextId })
    expect([left.id, answerIn(left)?.endsWith('I let it be.')]).toEqual([more.id, true])
    expect(wiped).toEqual(['logs'])
    // Other words are a no, and a task of their own in the context.
    const third = await send(at.client, 'And the rest', { contextId })
    expect(third.status.state).toBe(TASK_STATE_INPUT_REQUIRED)
    const other = await send(at.client, 'How many are there?', { contextId, taskId: third.id })
    expect([other.status.state, answerIn(other)]).toEqual([TASK_STATE_COMPLETED, 'Three.'])
    expect(other.id).not.toBe(third.id)
    const before = sentTask.parse(await at.client.getTask(named(third.id)))
    expect([before.status.state, before.status.message]).toEqual([TASK_STATE_CANCELED, undefined])
    const last = await send(at.client, 'And the last', { contextId })
    expect(last.status.state).toBe(TASK_STATE_INPUT_REQUIRED)
    const cancelled = await at.client.cancelTask(named(last.id))
    expect(cancelled.status?.state).toBe(TASK_STATE_CANCELED)
    expect(wiped).toEqual(['logs'])
    expect(at.model.remaining).toBe(0)
  })
})

test('the card is signed by the key of the oracle’s own document, and names nobody', async () => {
  await using at = await open([])
  const card = await at.client.getAgentCard()
  const document = await (await fetch(`${at.app.url}/.well-known/did.json`)).json()
  const kids: string[] = []
  await verifyAgentCardSignature(async (kid) => {
    kids.push(kid)
    const { publicKeyMultibase } = z
      .object({ verificationMethod: z.array(z.looseObject({ publicKeyMultibase: z.string() })) })
      .parse(document).verificationMethod[0]!
    expect(kid).toContain(publicKeyMultibase)
    const { base58btc } = await import('multiformats/bases/base58')
    const x = Buffer.from(base58btc.decode(publicKeyMultibase).slice(2)).toString('base64url')
    return { kty: 'OKP', crv: 'Ed25519', x }
  })(card)
  expect(kids).toHaveLength(1)
  expect(card.skills.map(({ id }) => id)).toContain('own')
  const url = `${at.app.url}/.well-known/agent-card.json`
  const served = await fetch(url)
  const words = await served.text()
  expect(words).not.toContain('ok_' + at.key.slice(3))
  expect(words).not.toContain(at.user.did)
  const etag = served.headers.get('etag') ?? ''
  expect((await fetch(url, { headers: { 'if-none-match': etag } })).status).toBe(304)
})

test('what cannot be is refused in the protocol’s words', async () => {
  await using at = await open(['Hello.'])
  const ask = async (body: unknown, headers: Env = {}) => {
    const answer = await fetch(`${at.app.url}/a2a`, {
      method: 'POST',
      headers: {
        ...{
          authorization: `Bearer ${at.key}`,
          'content-type': 'application/json',
          'a2a-version': '1.0',
        },
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    const { error } = z
      .looseObject({ error: z.looseObject({ code: z.number(), message: z.string() }) })
      .parse(await answer.json())
    return [answer.status, error.code]
  }
  const rpc = (method: string, params: unknown = {}) => ({ jsonrpc: '2.0', id: 1, method, params })
  expect(await ask('not json')).toEqual([400, -32600])
  expect(await ask([rpc('GetTask')])).toEqual([400, -32600])
  expect(await ask('['.repeat(65) + ']'.repeat(65))).toEqual([400, -32600])
  expect(await ask('{"jsonrpc":"2.0","id":1,"method":"GetTask\\u0000"}')).toEqual([400, -32600])
  expect(await ask('{"__proto__":{},"jsonrpc":"2.0","id":1,"method":"GetTask"}')).toEqual([
    400, -32600,
  ])
  expect(await ask(`"${'x'.repeat(1024 * 1024)}"`)).toEqual([413, -32600])
  expect(await ask({ id: 1, method: 'GetTask' })).toEqual([200, -32602])
  expect(await ask(rpc('Nothing'))).toEqual([200, -32601])
  expect((await ask(rpc('GetTask', [])))[0]).toBe(200)
  expect(await ask(rpc('GetTask', { id: 'x' }))).toEqual([200, -32001])
  expect(await ask(rpc('GetTask', { id: '..' }))).toEqual([200, -32001])
  expect(await ask(rpc('GetTask', { id: 'x' }), { 'a2a-version': '0.3' })).toEqual([200, -32009])
  expect(await ask(rpc('GetTask', { id: 'x' }), { authorization: 'Bearer ok_wrong' })).toEqual([
    401, -32603,
  ])
  expect(
    await ask(rpc('CreateTaskPushNotificationConfig', { taskId: 'x', url: 'https://x' })),
  ).toEqual([200, -32003])
  const message = (of: object) =>
    rpc('SendMessage', {
      message: { messageId: 'a', role: 'ROLE_USER', parts: [{ text: 'Hi' }], ...of },
    })
  expect((await ask(message({ parts: [] })))[0]).toBe(200)
  for (const wrong of [
    { role: 'ROLE_AGENT' },
    { role: 'ROLE_ROBOT' },
    { parts: [{ text: '  ' }] },
    { parts: [{ hologram: 1 }] },
    { parts: [{ text: 'x'.repeat(300 * 1024) }] },
    { parts: Array(1_000).fill({ url: 'file:///etc/passwd' }) },
    { messageId: '' },
    { taskId: 'x' },
  ])
    expect([JSON.stringify(wrong).slice(0, 40), (await ask(message(wrong)))[1]]).toEqual([
      JSON.stringify(wrong).slice(0, 40),
      expect.any(Number),
    ])
  expect((await ask(message({ contextId: 'x'.repeat(10_000) })))[1]).toBe(-32602)
  expect((await ask(message({ contextId: 'a\nb' })))[1]).toBe(-32602)
  expect((await ask(message({ contextId: '..' })))[1]).toBe(-32602)
  expect(at.model.requests).toHaveLength(0)
})

test('in production it is there where the operator says so', async () => {
  await using at = await open([], { A2A: 'on' })
  expect((await fetch(`${at.app.url}/.well-known/agent-card.json`)).status).toBe(200)
  await using off = await testApp({ plugins: [a2a], env: { A2A: 'off' } })
  expect((await fetch(`${off.url}/.well-known/agent-card.json`)).status).toBe(404)
})
