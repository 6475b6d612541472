import { describe, expect, it } from 'vitest'
import { definePlugin, RuntimeError } from '#core'
import { fakeOpenAi, type FakeAnswer } from '../support/fake-openai.ts'
import { testEngine } from '../support/engine.ts'
import { openAiInApp } from '../support/model-of.ts'
import { modelScript } from '../support/model-script.ts'

const layer = (middleware: object) =>
  definePlugin({ name: 'layer', summary: 'l', visibility: 'silent', middleware })

describe('a model that fails', () => {
  it('before its first word: an error event, and a run that failed', async () => {
    const error = new RuntimeError('MODEL_OVERLOADED', 'It has too much to do.')
    await using engine = await testEngine({ model: modelScript([{ then: error }]) })
    const run = await engine.turn('Hello')
    expect(run.end).toEqual({ status: 'failed', error })
    expect(run.heard).toEqual([
      {
        event: 'error',
        data: {
          error: 'It has too much to do.',
          code: 'MODEL_OVERLOADED',
          retryable: true,
          kind: 'model',
          statusCode: 503,
          requestId: run.requestId,
          timestamp: expect.any(String),
        },
      },
    ])
  })

  it('in the middle: what was said stays, and the session goes on', async () => {
    const error = new RuntimeError('MODEL_STREAM_BROKEN', 'It broke off.')
    const model = modelScript([{ text: 'It was a', then: error }, 'Yes?'])
    await using engine = await testEngine({ model })
    const run = await engine.turn('Tell')
    expect(run.heard.map(({ event }) => event)).toEqual(['message', 'message', 'message', 'error'])
    expect(await engine.entries()).toMatchObject([
      { messages: [{ content: 'It was a' }], partial: true },
    ])
    expect((await engine.turn('Go on')).end.status).toBe('finished')
    expect(model.requests[1]!.messages.at(-2)!.content).toBe('It was a')
  })

  it('in the middle of a call of a tool: the half call is none', async () => {
    const model = modelScript([
      { text: 'Let me', calls: [{ name: 'load_capability' }], then: new Error('no') },
      'Yes?',
    ])
    await using engine = await testEngine({ model })
    const run = await engine.turn('Tell')
    expect(run.end).toMatchObject({ status: 'failed', error: { code: 'INTERNAL' } })
    expect(run.of('tool_call')).toEqual([])
    expect((await engine.transcript()).at(-1)).not.toHaveProperty('toolCalls')
    expect(engine.log.join('')).toContain('no')
  })

  it('by ending without a word twice: a clear end', async () => {
    await using engine = await testEngine({ model: modelScript(['', '']) })
    const run = await engine.turn('Hello')
    expect(run.end).toMatchObject({ status: 'failed', error: { code: 'MODEL_ANSWER_INVALID' } })
  })

  it('is not blamed for silence after it has spoken', async () => {
    const model = modelScript([{ text: 'One moment.', calls: [{ name: 'list_capabilities' }] }, ''])
    await using engine = await testEngine({ model })
    expect((await engine.turn('Hello')).end).toEqual({ status: 'finished' })
  })

  it('that is offered no more gives way to the default, which is told', async () => {
    const model = modelScript(() => 'Hello.')
    await using engine = await testEngine({
      model: (name) => {
        if (name) throw new RuntimeError('MODEL_UNKNOWN', `There is no model "${name}".`)
        return model
      },
    })
    await engine.turn('One')
    const run = await engine.begin({ message: 'Hi', model: 'gpt-9' })
    expect(await run.ended).toEqual({ status: 'finished' })
    const told = { model: model.id, instead: 'gpt-9', code: 'MODEL_UNKNOWN' }
    expect(run.of('model')).toEqual([told])
    await engine.turn('Three')
    expect(model.requests[2]!.messages.map(({ content }) => content).slice(1)).toEqual([
      'One',
      'Hello.',
      'Hi',
      'Hello.',
      'Three',
    ])
  })
})

describe('a provider on a real wire', () => {
  async function turnWith(answers: readonly FakeAnswer[]) {
    const provider = await fakeOpenAi(answers)
    const { model } = await openAiInApp(provider.url)
    const engine = await testEngine({ model })
    return {
      engine,
      async [Symbol.asyncDispose]() {
        await engine[Symbol.asyncDispose]()
        await provider.close()
      },
    }
  }

  it('that repeats completion and call ids loses and overwrites nothing', async () => {
    const calls = { toolCalls: [{ name: 'list_capabilities', id: 'call_1' }], id: 'same' }
    await using provided = await turnWith([
      calls,
      calls,
      { text: 'First.', id: 'same' },
      calls,
      { text: 'Second.', id: 'same' },
    ])
    const { engine } = provided
    await engine.turn('One')
    await engine.turn('Two')
    const transcript = await engine.transcript()
    expect(transcript.map(({ role }) => role).join(' ')).toBe(
      'user assistant tool assistant tool assistant user assistant tool assistant',
    )
    const ids = transcript.map((message) => (message as { id: string }).id)
    expect(new Set(ids).size).toBe(ids.length)
    const called = transcript.flatMap((message) =>
      message.role === 'tool' ? [message.toolCallId] : [],
    )
    expect(new Set(called).size).toBe(3)
  })

  it('that sends empty deltas and asks for an invented tool comes to a clear end', async () => {
    await using provided = await turnWith([
      { text: ['', '', 'Hm', ''], toolCalls: [{ name: 'teleport', args: '{"to": ' }] },
      { text: ['', 'I cannot.', ''] },
    ])
    const run = await provided.engine.turn('Beam me up')
    expect(run.end.status).toBe('finished')
    expect(run.of('message').map(({ content }) => content)).toEqual(['Hm', 'I cannot.'])
    expect(run.of('tool_call').at(-1)).toMatchObject({ toolName: 'teleport', status: 'error' })
  })

  it('that refuses, or breaks off, ends the run with its code', async () => {
    await using provided = await turnWith([{ status: 401 }, { text: 'It was', then: 'cut' }])
    const { engine } = provided
    expect((await engine.turn('One')).of('error')).toMatchObject([
      { code: 'MODEL_UNAUTHORIZED', retryable: false },
    ])
    const broken = await engine.turn('Two')
    expect(broken.text).toBe('It was')
    expect(broken.of('error')).toMatchObject([{ code: 'MODEL_STREAM_BROKEN', retryable: true }])
  })
})

describe('a layer around the model', () => {
  it('may change what is asked, and sees the reply', async () => {
    const replies: string[] = []
    const plugin = layer({
      async model(ctx: any, next: any) {
        ctx.request = { ...ctx.request, messages: ctx.request.messages.slice(-1) }
        const reply = await next()
        replies.push(reply.content)
        return reply
      },
    })
    const model = modelScript(['Hello.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Hi')
    expect(model.requests[0]!.messages.map(({ role }) => role)).toEqual(['user'])
    expect(replies).toEqual(['Hello.'])
  })

  it('may answer by itself, and that is heard', async () => {
    const plugin = layer({ model: async () => ({ content: 'From memory.', toolCalls: [] }) })
    const model = modelScript([])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Hi')
    expect(run.text).toBe('From memory.')
    expect(model.requests).toEqual([])
  })
})

describe('a layer around the turn', () => {
  it('may refuse it: the error is told with what the caller needs to know', async () => {
    const plugin = layer({
      turn: () =>
        Promise.reject(
          new RuntimeError('PAYMENT_REQUIRED', 'Pay first.', { details: { claims: ['7'] } }),
        ),
    })
    await using engine = await testEngine({ plugins: [plugin], model: modelScript([]) })
    const run = await engine.turn('Hi')
    expect(run.end).toMatchObject({ status: 'failed', error: { status: 402 } })
    expect(run.of('error')).toMatchObject([
      { code: 'PAYMENT_REQUIRED', statusCode: 402, claims: ['7'], retryable: false },
    ])
  })

  it('that breaks is told without its inside, which is in the log', async () => {
    const plugin = layer({ turn: () => Promise.reject(new TypeError('secret of the house')) })
    await using engine = await testEngine({ plugins: [plugin], model: modelScript([]) })
    const run = await engine.turn('Hi')
    expect(run.of('error')).toMatchObject([{ code: 'INTERNAL' }])
    expect(JSON.stringify(run.heard)).not.toContain('secret')
    expect(engine.log.join('')).toContain('secret of the house')
  })

  it('that does not call next() ends it, and the log names the plugin', async () => {
    const plugin = layer({ turn: async () => undefined })
    await using engine = await testEngine({ plugins: [plugin], model: modelScript([]) })
    const run = await engine.turn('Hi')
    expect(run.end).toMatchObject({ status: 'finished' })
    const line = engine.log.find((one) => one.includes('middleware.turn ended a turn'))
    expect(line).toContain(` warn [${plugin.name}] `)
  })

  it('surrounds it from outside in', async () => {
    const order: string[] = []
    const named = (name: string) =>
      definePlugin({
        name,
        summary: name,
        visibility: 'silent',
        middleware: {
          async turn(ctx, next) {
            order.push(`${name} ${ctx.session.id}`)
            await next()
            order.push(`${name} again`)
          },
        },
      })
    const plugins = [named('outer'), named('inner')]
    await using engine = await testEngine({ plugins, model: modelScript(['Hello.']) })
    await engine.turn('Hi')
    expect(order).toEqual(['outer session-1', 'inner session-1', 'inner again', 'outer again'])
  })
})
