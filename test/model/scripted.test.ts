import { expect, it } from 'vitest'
import type { Delta, Message } from '../../core/plugin.ts'
import { resultOf, scriptedModel } from '#core/testing'
import { answered } from '../support/model-of.ts'
import { ask } from '../support/model-request.ts'

const call = (name: string, args?: unknown) => ({ call: name, args })

const replyOf = (model: ReturnType<typeof scriptedModel>, request = ask('Hello')) =>
  answered(model.stream(request))

it('takes one step for each call: words, calls, several calls, an answer in full', async () => {
  const usage = { inputTokens: 1, outputTokens: 2 }
  const model = scriptedModel([
    'Hello there',
    call('a', { n: 1 }),
    [call('a'), call('b', '{"broken')],
    { text: ['Pi', 'eces'], reasoning: 'Hm.', calls: [call('c')], usage },
  ])
  expect(await replyOf(model)).toEqual({ content: 'Hello there', toolCalls: [] })
  expect(await replyOf(model)).toEqual({
    content: '',
    toolCalls: [{ name: 'a', args: { n: 1 } }],
  })
  expect((await replyOf(model)).toolCalls).toEqual([
    { name: 'a', args: {} },
    { name: 'b', args: '{"broken' },
  ])
  expect(await replyOf(model)).toEqual({
    content: 'Pieces',
    reasoning: 'Hm.',
    toolCalls: [{ name: 'c', args: {} }],
    usage,
  })
  expect(model.remaining).toBe(0)
})

it('an answer may end early', async () => {
  const deltas: Delta[] = []
  const model = scriptedModel([{ text: 'Half', ended: 'length' }])
  for await (const delta of model.stream(ask('Hello'))) deltas.push(delta)
  expect(deltas).toEqual([
    { type: 'text', text: 'Half' },
    { type: 'ended', by: 'length' },
  ])
})

it('a step may be a function of the request, and may give another function', async () => {
  const model = scriptedModel([
    async ({ messages }, nth) =>
      () =>
        `Step ${nth} heard ${messages.at(-1)?.content}`,
  ])
  expect((await replyOf(model)).content).toBe('Step 0 heard Hello')
})

it('the result of a tool is at hand in a function', async () => {
  const messages: Message[] = [
    { role: 'tool', id: '1', toolCallId: 'c', name: 'count', content: '{"n":1}' },
    { role: 'tool', id: '2', toolCallId: 'd', name: 'count', content: '{"n":2}' },
    { role: 'tool', id: '3', toolCallId: 'e', name: 'say', content: 'plain words' },
  ]
  const model = scriptedModel([(request) => JSON.stringify(resultOf(request, 'count'))])
  expect((await replyOf(model, ask(messages))).content).toBe('{"n":2}')
  expect(resultOf({ messages }, 'say')).toBe('plain words')
  expect(() => resultOf({ messages }, 'other')).toThrow('no result of "other"')
})

it('an error is thrown, alone or after some words', async () => {
  const error = new Error('down')
  const model = scriptedModel([error, { text: 'Some', error }])
  await expect(replyOf(model)).rejects.toBe(error)
  const said: unknown[] = []
  const speaking = answered(model.stream(ask('Hello')), (delta) => said.push(delta))
  await expect(speaking).rejects.toBe(error)
  expect(said).toEqual([{ type: 'text', text: 'Some' }])
})

it('records the requests as they were', async () => {
  const messages: Message[] = [{ role: 'user', id: 'u', content: 'First' }]
  const model = scriptedModel(['One', 'Two'])
  await replyOf(model, ask(messages))
  messages.push({ role: 'user', id: 'v', content: 'Second' })
  await replyOf(model, ask(messages))
  expect(model.requests.map((request) => request.messages.length)).toEqual([1, 2])
})

it('says what was asked when the script is too short', async () => {
  const model = scriptedModel(['Only one'])
  await replyOf(model)
  await expect(replyOf(model)).rejects.toThrow(
    'scriptedModel has 1 steps, and this is call 2. The last message was user: Hello',
  )
})

it('stops when it is told to: before it begins, while it waits, between two words', async () => {
  const reason = new Error('stop')
  const late = new AbortController()
  const model = scriptedModel([
    { text: 'never said', delayMs: 60_000 },
    { text: 'one two', paceMs: 60_000 },
  ])
  await expect(replyOf(model, ask('x', [], AbortSignal.abort(reason)))).rejects.toBe(reason)
  expect(model.requests).toHaveLength(0)

  setTimeout(() => late.abort(reason), 10)
  await expect(replyOf(model, ask('x', [], late.signal))).rejects.toBe(reason)

  const between = new AbortController()
  const said: unknown[] = []
  const speaking = answered(model.stream(ask('x', [], between.signal)), (delta) => {
    said.push(delta)
    between.abort(reason)
  })
  await expect(speaking).rejects.toBe(reason)
  expect(said).toEqual([{ type: 'text', text: 'one' }])
})
