import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type Model } from '#core'
import { scriptedModel, testApp, type ScriptedModel, type TestApp } from '#core/testing'
import { framings, ioSocket, plainSocket, tokensOf } from '../support/sockets.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'
import { unquote } from '../support/models.ts'

const schema = { type: 'object', properties: { css: { type: 'string' } }, required: ['css'] }
const click = { name: 'click', description: 'Clicks.', schema }
const tell = { name: 'tell', description: 'Tells.', schema: {}, hasRender: true }
const clicks = (...all: string[]) => all.map((css) => ({ call: 'click', args: { css } }))

const show = definePlugin({
  name: 'show',
  summary: 'Shows things.',
  visibility: 'always',
  tools: {
    show_card: {
      description: 'Shows a card.',
      input: z.object({ title: z.string() }),
      run({ title }, { emit }) {
        emit.reasoning('Cards are nice.')
        emit.component('Card', { title })
        emit.router('/cards')
        emit.progress(1, 1)
        emit.invalidate('changed')
        return 'shown'
      },
    },
    draw_slowly: {
      description: 'Draws a chart as its points come.',
      input: z.object({}),
      run(_, { emit }) {
        emit.component('Chart', { points: [1] }, { id: 'chart', status: 'isRunning' })
        emit.component('Chart', { points: [1, 2] }, { id: 'chart' })
        emit.component('Chart', { points: [] })
        return 'drawn'
      },
    },
  },
})

/** A model that writes the arguments of one call piece by piece. */
function slowWriter(name: string, pieces: readonly string[]): Model {
  let nth = 0
  return {
    id: 'slow',
    async *stream() {
      if (nth++ > 0) return yield { type: 'text', text: 'Done.' }
      for (const args of pieces) {
        yield { type: 'tool-call', index: 0, id: 'call', name, args }
        await pause(60)
      }
    },
  }
}

interface Scene extends AsyncDisposable {
  readonly app: TestApp
  readonly user: Awaited<ReturnType<TestApp['user']>>
  readonly sessionId: string
  readonly tokens: Awaited<ReturnType<typeof tokensOf>>
}

async function scene(
  model: Model,
  { databaseUrl }: Where,
  env: Record<string, string> = {},
): Promise<Scene> {
  const app = await testApp({
    plugins: [show],
    model,
    env: { ...(databaseUrl && { DATABASE_URL: databaseUrl }), ...env },
  })
  const user = await app.user()
  const { sessionId } = (await user.post('/sessions')).body
  const tokens = await tokensOf(user, app.oracleDid)
  return { app, user, sessionId, tokens, [Symbol.asyncDispose]: () => app.close() }
}

const toolMessages = (model: ScriptedModel, nth = 1) =>
  model.requests[nth]!.messages.flatMap(({ role, content }) =>
    role === 'tool' ? unquote(content) : [],
  )

await onEachDatabase('a turn, over sockets', (where) => {
  for (const [name, framing] of Object.entries(framings)) {
    it(`calls tools of the browser, and each result reaches its own call (${name})`, async () => {
      const model = scriptedModel([clicks('#a', '#b'), 'Clicked.'])
      await using it = await scene(model, where)
      const socket = await framing(it.app.url, it.sessionId, it.tokens)
      const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
      const calls = [
        await socket.event('browser_tool_call'),
        await socket.event('browser_tool_call', 1),
      ]
      expect(calls[0]).toEqual({
        sessionId: it.sessionId,
        requestId: expect.any(String),
        runId: expect.any(String),
        eventId: calls[0].toolCallId,
        seq: expect.any(Number),
        toolCallId: expect.any(String),
        toolName: 'click',
        args: { css: expect.any(String) },
      })
      for (const { toolCallId, args } of calls.toReversed())
        socket.answer({ toolCallId, sessionId: it.sessionId, result: { at: args.css } })
      const { text, status } = await said
      expect([text, status]).toEqual(['Clicked.', 'finished'])
      expect(toolMessages(model)).toEqual(['{"at":"#a"}', '{"at":"#b"}'])
    })

    it(`tells the model what went wrong over there (${name})`, async () => {
      const model = scriptedModel([clicks('#a'), 'Well.'])
      await using it = await scene(model, where)
      const socket = await framing(it.app.url, it.sessionId, it.tokens)
      const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
      const { toolCallId } = await socket.event('browser_tool_call')
      socket.answer({ toolCallId, result: null, error: 'no such element' })
      await said
      expect(JSON.parse(toolMessages(model)[0]!)).toMatchObject({
        code: 'CLIENT_TOOL_FAILED',
        error: 'The client could not carry out the call: no such element',
      })
    })

    it(`tells the model of a result that is too large (${name})`, async () => {
      const model = scriptedModel([clicks('#a'), 'Well.'])
      await using it = await scene(model, where)
      const socket = await framing(it.app.url, it.sessionId, it.tokens)
      const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
      const { toolCallId } = await socket.event('browser_tool_call')
      socket.answer({ toolCallId, result: 'x'.repeat(100_000) })
      expect((await socket.closed).code).toBe(1009)
      await said
      expect(toolMessages(model)[0]).toContain('larger than 64 KiB')
    })

    it(`carries out an action once its arguments are checked (${name})`, async () => {
      const model = scriptedModel([
        [{ call: 'tell', args: 'no json' }],
        [{ call: 'tell', args: { n: 1 } }],
        'Told.',
      ])
      await using it = await scene(model, where)
      const socket = await framing(it.app.url, it.sessionId, it.tokens)
      const said = it.user.say('Tell', { sessionId: it.sessionId, body: { agActions: [tell] } })
      const call = await socket.find((text) => {
        const at = text.indexOf('"status":"isRunning"')
        return at >= 0 && text.includes('action_call') ? text : undefined
      })
      expect(call).toContain('"args":{"n":1}')
      const toolCallId = /"toolCallId":"([^"]+)"/.exec(call)![1]!
      socket.answer({ toolCallId, result: { success: true } }, 'action_call_result')
      const { of } = await said
      expect(of('action_call').map(({ status }) => status)).toEqual(['error', 'isRunning', 'done'])
      expect(toolMessages(model, 2).at(-1)).toBe('{"success":true}')
      // A client of Socket.IO carries out whatever comes by this name.
      if (name === 'socket.io') expect(socket.events('action_call')).toHaveLength(1)
    })
  }

  it('tells plain sockets all that its stream tells', async () => {
    const model = scriptedModel([[{ call: 'show_card', args: { title: 'A' } }], 'There you are.'])
    await using it = await scene(model, where)
    const socket = await plainSocket(it.app.url, it.sessionId, it.tokens)
    const said = await it.user.say('Show', { sessionId: it.sessionId })
    await socket.event('done')
    const heard = socket.heard.slice(1).map((text) => JSON.parse(text))
    expect(heard.map(({ eventName, payload }) => [payload.seq, eventName])).toEqual(
      said.events.map(({ id, event }) => [id, event]),
    )
    for (const [i, { payload }] of heard.entries()) {
      expect(payload).toMatchObject(said.events[i]!.data)
      expect(payload).toMatchObject({
        sessionId: it.sessionId,
        requestId: expect.any(String),
        runId: said.runId,
        eventId: expect.any(String),
      })
    }
  })

  it('tells everything once, however short a turn is', async () => {
    const turns = 6
    await using it = await scene(scriptedModel(Array(turns).fill('Yes.')), where)
    const socket = await plainSocket(it.app.url, it.sessionId, it.tokens)
    for (let i = 0; i < turns; i++) await it.user.say('Short', { sessionId: it.sessionId })
    await socket.event('done', turns - 1)
    await pause(300) // what would come twice comes late
    const heard = socket.heard.slice(1).map((text) => {
      const { payload } = JSON.parse(text)
      return `${payload.runId} ${payload.seq}`
    })
    expect(new Set(heard).size).toBe(heard.length)
  })

  it('tells clients of Socket.IO what they do not read from the stream, in the shape they read', async () => {
    const model = scriptedModel([[{ call: 'show_card', args: { title: 'A' } }], 'There you are.'])
    await using it = await scene(model, where)
    const socket = await ioSocket(it.app.url, it.sessionId, it.tokens)
    const plain = await plainSocket(it.app.url, it.sessionId, it.tokens)
    const { runId } = await it.user.say('Show', { sessionId: it.sessionId })
    await plain.event('done')
    socket.send('2')
    await socket.find((text) => (text === '3' ? true : undefined))
    const heard = socket.heard
      .filter((text) => text.startsWith('42["event"'))
      .map((text) => JSON.parse(text.slice(2))[1])
    expect(heard.map(({ eventName }) => eventName)).toEqual([
      'tool_call',
      'render_component',
      'router',
      'message_cache_invalidation',
      'tool_call',
      'message_cache_invalidation', // the end of the run
    ])
    for (const { eventName, payload } of heard)
      // With a session in it, the published client shows an answer on its way that never comes.
      if (eventName === 'message_cache_invalidation')
        expect(payload).toEqual({ sessionId: null, requestId: null })
      else
        expect(payload).toMatchObject({
          sessionId: it.sessionId,
          requestId: expect.any(String),
          eventId: expect.any(String),
          runId,
        })
    expect(heard[1].payload).toMatchObject({ componentName: 'Card', args: { title: 'A' } })
  })

  it('ignores results of other sessions and users, and says so in the log', async () => {
    const model = scriptedModel([clicks('#a'), 'Clicked.'])
    await using it = await scene(model, where)
    const socket = await plainSocket(it.app.url, it.sessionId, it.tokens)
    const elsewhere = (await it.user.post('/sessions')).body.sessionId
    const sibling = await plainSocket(it.app.url, elsewhere, it.tokens)
    const stranger = await it.app.user()
    const strange = (await stranger.post('/sessions')).body.sessionId
    const strangers = await ioSocket(
      it.app.url,
      strange,
      await tokensOf(stranger, it.app.oracleDid),
    )
    const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
    const { toolCallId, runId } = await socket.event('browser_tool_call')
    for (const liar of [sibling, strangers])
      for (const sessionId of [it.sessionId, elsewhere, strange, undefined])
        liar.answer({ toolCallId, sessionId, result: 'a lie' })
    socket.answer({ toolCallId, sessionId: elsewhere, result: 'a lie' })
    const overHttp = await stranger.post(`/runs/${runId}/tool-results`, { toolCallId, result: 1 })
    expect(overHttp.status).toBe(404)
    while (it.app.log.filter((line) => line.includes('was ignored')).length < 9)
      await new Promise((resolve) => setTimeout(resolve, 20))
    expect(toolMessagesIfAny(model)).toEqual([])
    socket.answer({ toolCallId, result: 'the truth' })
    await said
    expect(toolMessages(model)).toEqual(['the truth'])
    expect(it.app.log.join('\n')).not.toContain('a lie')
  })

  it('counts the first result only, and none after the time is over', async () => {
    const model = scriptedModel([clicks('#a'), clicks('#b'), 'Well.'])
    await using it = await scene(model, where, { BROWSER_TOOL_TIMEOUT_MS: '1500' })
    const socket = await plainSocket(it.app.url, it.sessionId, it.tokens)
    const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
    const first = await socket.event('browser_tool_call')
    for (const result of ['first', 'another']) socket.answer({ ...first, result })
    const late = await socket.event('browser_tool_call', 1)
    await said
    socket.answer({ toolCallId: late.toolCallId, result: 'late' })
    const accepted = await it.user.post(`/runs/${late.runId}/tool-results`, {
      toolCallId: late.toolCallId,
      result: 'late',
    })
    expect(accepted.body).toEqual({ accepted: false })
    expect(toolMessages(model, 2)[0]).toBe('first')
    expect(JSON.parse(toolMessages(model, 2)[1]!)).toMatchObject({ code: 'CLIENT_TIMEOUT' })
    const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
    expect(JSON.stringify(messages)).not.toContain('late')
    expect(JSON.stringify(messages)).not.toContain('another')
  })

  it('takes a result over HTTP from a client that only follows the stream', async () => {
    const model = scriptedModel([clicks('#a'), 'Clicked.'])
    await using it = await scene(model, where)
    const headers = await it.user.wallet.headers(it.app.oracleDid)
    const response = await fetch(`${it.app.url}/messages/${it.sessionId}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ message: 'Click', tools: [click] }),
    })
    let text = ''
    const decoder = new TextDecoder()
    for await (const bytes of response.body!) {
      text += decoder.decode(bytes, { stream: true })
      const call = /event: browser_tool_call\ndata: (.*)\n/.exec(text)
      if (!call || text.includes('"status":"done"')) continue
      const { toolCallId } = JSON.parse(call[1]!)
      const runId = response.headers.get('x-run-id')
      const path = `/runs/${runId}/tool-results`
      expect((await it.user.post(path, { toolCallId, result: 'over HTTP' })).body).toEqual({
        accepted: true,
      })
    }
    expect(toolMessages(model)).toEqual(['over HTTP'])
  })

  it('goes on without the browser when no page is there', async () => {
    const model = scriptedModel([clicks('#a'), 'Then not.'])
    await using it = await scene(model, where)
    const { body } = await it.user.post(`/messages/${it.sessionId}`, {
      message: 'Click',
      stream: false,
      tools: [click],
    })
    expect(body.message.content).toBe('Then not.')
    expect(JSON.parse(toolMessages(model)[0]!)).toMatchObject({
      code: 'CLIENT_ABSENT',
      hint: expect.stringContaining('Go on without it'),
    })
  })

  for (const [name, framing] of Object.entries(framings))
    it(`asks again, once, when the socket was lost meanwhile (${name})`, async () => {
      const model = scriptedModel([clicks('#a', '#b'), 'Clicked.'])
      await using it = await scene(model, where)
      const lost = await framing(it.app.url, it.sessionId, it.tokens)
      const said = it.user.say('Click', { sessionId: it.sessionId, body: { tools: [click] } })
      const asked = [
        await lost.event('browser_tool_call'),
        await lost.event('browser_tool_call', 1),
      ]
      const [a, b] = asked.sort((one, other) => (one.args.css < other.args.css ? -1 : 1))
      lost.answer({ toolCallId: a.toolCallId, result: 'a' })
      await lost.find((text) => (text.includes('"status":"done"') ? true : undefined))
      lost.kill()
      const back = await framing(it.app.url, it.sessionId, it.tokens)
      const again = await back.event('browser_tool_call')
      expect(again).toMatchObject({
        toolCallId: b.toolCallId,
        args: b.args,
        requestId: b.requestId,
      })
      for (const result of ['b', 'b again']) back.answer({ toolCallId: b.toolCallId, result })
      await said
      expect(back.events('browser_tool_call')).toHaveLength(1)
      expect(toolMessages(model)).toEqual(['a', 'b'])
    })

  it('shows a component again after a reload, named after itself', async () => {
    const model = scriptedModel([[{ call: 'show_card', args: { title: 'A' } }], 'There you are.'])
    await using it = await scene(model, where)
    await it.user.say('Show', { sessionId: it.sessionId })
    const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
    expect(messages[1].toolCalls).toMatchObject([
      { name: 'show_card', status: 'done', output: 'shown' },
      { name: 'Card', args: { title: 'A' }, status: 'done' },
    ])
  })

  it('shows the newest of a component that changes, also after a reload', async () => {
    const model = scriptedModel([[{ call: 'draw_slowly' }], 'Drawn.'])
    await using it = await scene(model, where)
    const said = await it.user.say('Draw', { sessionId: it.sessionId })
    const shown = said.of('render_component')
    expect(shown.map(({ args, status }) => [args.points, status])).toEqual([
      [[1], 'isRunning'],
      [[1, 2], 'done'],
      [[], 'done'],
    ])
    expect(shown[1].eventId).toBe(shown[0].eventId)
    expect(shown[2].eventId).not.toBe(shown[0].eventId)
    const { messages } = (await it.user.get(`/messages/${it.sessionId}`)).body
    expect(messages[1].toolCalls).toMatchObject([
      { name: 'draw_slowly' },
      { name: 'Chart', args: { points: [1, 2] }, id: shown[0].eventId },
      { name: 'Chart', args: { points: [] } },
    ])
  })

  it('shows an action that is drawn while the model writes its arguments', async () => {
    const pieces = ['{"text":"On', 'ce upon', ' a time', ' there', ' was', '"', '}']
    await using it = await scene(slowWriter('tell', pieces), where)
    const plain = await plainSocket(it.app.url, it.sessionId, it.tokens)
    const io = await ioSocket(it.app.url, it.sessionId, it.tokens)
    const said = it.user.say('Tell', { sessionId: it.sessionId, body: { agActions: [tell] } })
    const { toolCallId, args } = await plain.event('action_call')
    expect(args).toEqual({ text: 'Once upon a time there was' })
    plain.answer({ toolCallId, result: 'told' }, 'action_call_result')
    const { of } = await said
    const arriving = plain.events('render_component')
    expect(arriving.length).toBeGreaterThan(1)
    for (const { args, ...rest } of arriving) {
      expect('Once upon a time there was'.startsWith(args.text)).toBe(true)
      expect(rest).toMatchObject({ componentName: 'tell', status: 'isRunning', toolCallId })
    }
    expect(of('render_component')).toHaveLength(arriving.length)
    // The published client would draw it beside the action.
    expect(io.events('render_component')).toEqual([])
    expect(io.events('action_call')).toHaveLength(1)
  })

  it('names every tool whose name is taken, before anything runs', async () => {
    const model = scriptedModel([])
    await using it = await scene(model, where)
    const { status, body } = await it.user.post(`/messages/${it.sessionId}`, {
      message: 'Go',
      tools: [click, { ...click, name: 'show_card' }, { ...click, name: 'load_capability' }],
      agActions: [{ ...tell, name: 'click' }],
    })
    expect(status).toBe(400)
    for (const name of ['"show_card"', '"load_capability"', '"click"'])
      expect(body.message).toContain(name)
    expect(body.details.map(({ path }: { path: string }) => path)).toEqual([
      'tools.1.name',
      'tools.2.name',
      'agActions.0.name',
    ])
  })
})

const toolMessagesIfAny = (model: ScriptedModel) =>
  model.requests.length > 1 ? toolMessages(model) : []
