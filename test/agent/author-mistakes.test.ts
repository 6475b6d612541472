import { expect, describe, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type AnyPlugin } from '#core'
import { call, resultOf, scriptedModel, testApp } from '#core/testing'

/** A plugin as somebody writes it in plain JavaScript: no type has seen it. */
const written = (sections: object): AnyPlugin =>
  definePlugin({
    name: 'p',
    summary: 'Is written without types.',
    visibility: 'always',
    ...sections,
  } as never)

const reads = { description: 'Works.', effect: 'read', foreign: false, input: z.object({}) }

/** Calls the tool `work` in a turn: what the model reads of it, and what the log says to the author. */
async function worked(tool: object, sections: object = {}) {
  const model = scriptedModel([call('work'), 'Well.'])
  const plugin = written({ tools: { work: { ...reads, ...tool } }, ...sections })
  await using app = await testApp({ plugins: [plugin], model })
  const said = await (await app.user()).say('Go')
  return { said, result: resultOf(model.requests[1]!, 'work'), log: app.log.join('\n') }
}

describe('a result of which JSON holds nothing', () => {
  it.each<[what: string, instead: string, run: () => unknown]>([
    ['a Response', 'what it holds, such as await response.json()', () => new Response('{}')],
    ['a Map', 'an object: Object.fromEntries(map)', () => new Map([['a', 1]])],
    ['a Set', 'a list: [...set]', () => new Set(['a'])],
    [
      'a stream of values',
      'them together, as one value',
      async function* () {
        yield 1
      },
    ],
    [
      'a stream of values',
      'them together, as one value',
      function* () {
        yield 1
      },
    ],
  ])('such as %s is no empty object: the log says to return %s', async (what, instead, run) => {
    const { result, log } = await worked({ run })
    expect(result).toEqual({
      error: '"work" was carried out, and its result cannot be read.',
      code: 'INTERNAL',
      hint: 'Do not repeat the call; tell the user. The log has the cause.',
    })
    expect(log).toContain(
      `The tool "work" returned ${what}, which the model cannot read: return ${instead}`,
    )
  })
})

describe('a layer around the model', () => {
  it.each([
    ['undefined', async (_: unknown, next: () => Promise<unknown>) => void (await next())],
    ['{"content":"Hello."}', async () => ({ content: 'Hello.' })],
  ])('that returns %s fails the turn, and the log names its plugin', async (returned, layer) => {
    const model = scriptedModel(['Well.'])
    await using app = await testApp({ plugins: [written({ middleware: { model: layer } })], model })
    const user = await app.user()
    const { sessionId } = (await user.post('/sessions')).body
    const answer = await user.post(`/messages/${sessionId}`, { message: 'Go' })
    expect(`${answer.status} ${JSON.stringify(answer.body)}`).toContain(
      'The turn failed on our side.',
    )
    expect(app.log.join('\n')).toContain(
      `middleware.model of p returned ${returned}: return what next() resolves to, or { content, toolCalls }`,
    )
  })
})

it('how far a call is that counts nothing is told as numbers all the same', async () => {
  const { said } = await worked({
    run(_: unknown, { emit }: { emit: { progress(done: number, total: number): void } }) {
      emit.progress(0 / 0, 0)
      emit.progress(-1, Infinity)
      emit.progress(1, 2)
      return 'done'
    },
  })
  const told = said.of('progress').map(({ done, total }) => ({ done, total }))
  expect(told).toEqual([{ done: 0 }, { done: 0 }, { done: 1, total: 2 }])
})

it('a layer that is no async function counts as one', async () => {
  const around = await worked({ run: () => 'done' }, { middleware: { tool: () => 'instead' } })
  expect(around.result).toBe('instead')
  const wrong = () => {
    throw new Error('no such layer')
  }
  const failed = await worked({ run: () => 'done' }, { middleware: { tool: wrong } })
  expect(failed.result).toMatchObject({ error: 'The tool "work" failed.' })
  expect(failed.log).toContain('no such layer')
})
