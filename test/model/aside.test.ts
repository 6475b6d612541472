import { describe, expect, it } from 'vitest'
import { chain, RuntimeError } from '#core'
import { scriptedModel, type ScriptedStep } from '#core/testing'
import type { Model, ModelCall } from '../../core/plugin.ts'
import { AppModels } from '../../core/runtime/model/aside/app-models.ts'
import { silent } from '../support/silent-log.ts'
import { askAside, type AsideQuestion } from '../../core/runtime/model/aside/ask-aside.ts'

const down = new RuntimeError('MODEL_OVERLOADED', 'It is overloaded.')

function asking(model: Model, more: Partial<AsideQuestion> = {}) {
  const calls: ModelCall[] = []
  const answer = askAside({
    model,
    messages: [{ role: 'user', id: 'u', content: 'What is it?' }],
    signal: new AbortController().signal,
    for: { kind: 'summary', did: 'did:key:zUser', sessionId: 's' },
    tell: (call) => calls.push(call),
    ...more,
  })
  return { answer, calls }
}

describe('a model that is asked aside', () => {
  it('gives its words, its calls and what they cost, and tells of the call once', async () => {
    const usage = { inputTokens: 7, outputTokens: 3 }
    const model = scriptedModel([
      { text: 'A day.', calls: [{ call: 'note', args: { n: 1 } }], usage },
    ])
    const { answer, calls } = asking(model, {
      tools: [{ name: 'note', description: 'Notes.', parameters: { type: 'object' } }],
      settings: { toolChoice: { tool: 'note' } },
    })
    expect(await answer).toMatchObject({
      text: 'A day.',
      calls: [{ name: 'note', args: { n: 1 } }],
      usage: { model: model.id, ...usage },
    })
    expect(model.requests[0]).toMatchObject({ settings: { toolChoice: { tool: 'note' } } })
    expect(calls).toEqual([
      {
        model: model.id,
        did: 'did:key:zUser',
        sessionId: 's',
        kind: 'summary',
        usage: { ...usage, cost: null },
        ms: expect.any(Number),
        firstMs: expect.any(Number),
        attempts: 1,
      },
    ])
  })

  it('goes on to the next of a chain before the first word, and tells of both', async () => {
    const models = chained([down], ['Here I am.'])
    const { answer, calls } = asking(models.chain)
    expect(await answer).toMatchObject({ text: 'Here I am.', usage: { model: 'two/b' } })
    expect(calls).toMatchObject([
      { model: 'one/a', code: 'MODEL_OVERLOADED', usage: { inputTokens: 0, outputTokens: 0 } },
      { model: 'two/b', usage: { estimated: true } },
    ])
  })

  it('never asks another model after a word', async () => {
    const models = chained([{ text: 'I am', error: down }], ['Here I am.'])
    const { answer, calls } = asking(models.chain)
    await expect(answer).rejects.toMatchObject({ code: 'MODEL_OVERLOADED' })
    expect(models.b.requests).toEqual([])
    expect(calls).toMatchObject([{ code: 'MODEL_OVERLOADED', usage: { estimated: true } }])
  })

  it('fails with the fault of the first when all have failed, and rests a model that keeps failing', async () => {
    const gone = new RuntimeError('MODEL_UNAUTHORIZED', 'No.')
    const models = chained([down, down, down], [gone, gone, gone, 'Back.'])
    for (let nth = 0; nth < 3; nth++)
      await expect(asking(models.chain).answer).rejects.toMatchObject({
        code: 'MODEL_OVERLOADED',
        details: { tried: [{ model: 'one/a' }, { model: 'two/b' }] },
      })
    const { answer } = asking(models.chain)
    // Both rest by now, so the first is asked again: its script is at its end.
    await expect(answer).rejects.toThrow()
    expect(models.a.requests).toHaveLength(4)
  })

  it('ends at once when its signal fires, also where the model does not listen', async () => {
    const stop = new AbortController()
    const deaf: Model = {
      id: 'deaf',
      async *stream() {
        yield { type: 'text', text: 'Well' }
        stop.abort(new Error('enough'))
        await new Promise(() => undefined)
      },
    }
    const { answer, calls } = asking(deaf, { signal: stop.signal })
    await expect(answer).rejects.toThrow('enough')
    expect(calls).toMatchObject([{ model: 'deaf', code: 'ABORTED', usage: { estimated: true } }])
  })

  it('asks nobody when its signal has fired before', async () => {
    const model = scriptedModel(['Hello.'])
    const { answer, calls } = asking(model, { signal: AbortSignal.abort(new Error('over')) })
    await expect(answer).rejects.toThrow('over')
    expect(model.requests).toEqual([])
    expect(calls).toEqual([])
  })
})

it('what plugins ask and embed is told in one place, and to the turn that asked', async () => {
  const told: ModelCall[] = []
  const toldTurn: ModelCall[] = []
  const usage = { inputTokens: 7, outputTokens: 3 }
  const model = scriptedModel([{ text: 'Yes.', usage }, new RuntimeError('MODEL_REFUSED', 'No.')])
  const embedding = { embed: () => Promise.reject(new Error('not asked here')) }
  const app = new AppModels({
    models: { default: model, all: [model], get: () => model, has: () => true },
    embedding,
    log: silent,
    tell: (call) => told.push(call),
  })
  const scope = {
    did: 'did:key:zUser',
    runId: 'r',
    sessionId: 's',
    tell: (call: ModelCall) => toldTurn.push(call),
  }
  const asked = app.of('notes')(scope)
  expect(await asked.model.text('Is it?')).toBe('Yes.')
  await expect(asked.models.get().text('Is it?')).rejects.toMatchObject({ code: 'MODEL_REFUSED' })
  const whose = {
    did: 'did:key:zUser',
    runId: 'r',
    sessionId: 's',
    plugin: 'notes',
    kind: 'plugin',
  }
  expect(told).toMatchObject([
    { ...whose, usage },
    { ...whose, code: 'MODEL_REFUSED' },
  ])
  expect(toldTurn).toEqual(told)
})

function chained(first: readonly ScriptedStep[], second: readonly ScriptedStep[]) {
  const a = scriptedModel(first, { id: 'one/a' })
  const b = scriptedModel(second, { id: 'two/b' })
  return { a, b, chain: chain([a, b]) }
}
