import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { testEngine } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'

/** A plugin that sets what it is told to, and shows the model what it holds. */
const keeper = definePlugin({
  name: 'keeper',
  summary: 'Keeps.',
  visibility: 'always',
  state: {
    count: z.number().max(9).default(0),
    note: z.string().nullable().optional(),
    habits: z
      .object({ tone: z.string().optional(), language: z.string().optional() })
      .default({})
      .meta({ scope: 'room' }),
  },
  prompt: ({ state }) => `It holds ${JSON.stringify(state)}.`,
  tools: {
    set: {
      description: 'Sets.',
      effect: 'read',
      input: z.looseObject({}),
      run(values, { state }) {
        const { habits, ...rest } = values as { habits?: object }
        if (habits) state.habits = { ...state.habits, ...habits }
        Object.assign(state, rest)
        return 'set'
      },
    },
  },
})

/** Sets what the user's words say, then answers. */
const setter = () =>
  modelScript(({ messages }): Answer => {
    const { role, content } = messages.at(-1)!
    return role === 'user' && content.startsWith('{')
      ? { calls: [{ name: 'set', args: JSON.parse(content) }] }
      : 'Well.'
  })

const held = (model: ReturnType<typeof setter>) =>
  JSON.parse(/It holds (.*)\.$/m.exec(model.requests.at(-1)!.messages[0]!.content)![1]!)

describe('a plugin’s state', () => {
  it('begins with its defaults and is seen by the very first model call', async () => {
    const model = setter()
    await using engine = await testEngine({ plugins: [keeper], model })
    await engine.turn('Hello')
    expect(held(model)).toEqual({ count: 0, habits: {} })
  })

  it('lasts for the session, in this process and in the next, and leaks into no other', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'state-'))
    try {
      {
        await using engine = await testEngine({ plugins: [keeper], model: setter(), folder })
        await Promise.all([
          engine.turn('{"count":3,"note":"x"}', 'a'),
          engine.turn('{"count":5}', 'b'),
        ])
        await engine.turn('{"note":null}', 'a')
      }
      const model = setter()
      await using engine = await testEngine({ plugins: [keeper], model, folder })
      await engine.turn('Hello', 'a')
      expect(held(model)).toEqual({ count: 3, note: null, habits: {} })
      await engine.turn('Hello', 'b')
      expect(held(model)).toEqual({ count: 5, habits: {} })
      await engine.turn('Hello', 'c')
      expect(held(model)).toEqual({ count: 0, habits: {} })
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('with the scope of the room is there in every session of it, and in no other room', async () => {
    const model = setter()
    await using engine = await testEngine({ plugins: [keeper], model })
    const turn = (message: string, session: string, room: string) =>
      engine.turn(message, { session, room })
    await turn('{"habits":{"tone":"dry"}}', 'a', 'kitchen')
    await turn('Hello', 'b', 'kitchen')
    expect(held(model).habits).toEqual({ tone: 'dry' })
    await turn('Hello', 'c', 'cellar')
    expect(held(model).habits).toEqual({})
  })

  it('of a room is merged field by field when two sessions change it at once', async () => {
    const model = setter()
    await using engine = await testEngine({ plugins: [keeper], model })
    const turn = (message: string, session: string) =>
      engine.turn(message, { session, room: 'kitchen' })
    await Promise.all([
      turn('{"habits":{"tone":"dry"}}', 'a'),
      turn('{"habits":{"language":"sw"}}', 'b'),
    ])
    await turn('Hello', 'c')
    expect(held(model).habits).toEqual({ tone: 'dry', language: 'sw' })
  })

  it('that does not fit its schema is put back, and the log says so', async () => {
    const model = setter()
    await using engine = await testEngine({ plugins: [keeper], model })
    await engine.turn('{"count":4}')
    await engine.turn('{"count":99}')
    await engine.turn('Hello')
    expect(held(model).count).toBe(4)
    expect(engine.log.join('')).toMatch(/A value of "keeper.count" was not kept/)
  })

  it('that is no data is put back as well', async () => {
    const circle: Record<string, unknown> = {}
    circle.self = circle
    const odd = definePlugin({
      name: 'odd',
      summary: 'o',
      visibility: 'always',
      state: { thing: z.any().optional() },
      prompt: ({ state }) => `It holds ${typeof state.thing}.`,
      tools: {
        set: {
          description: 'Sets.',
          effect: 'read',
          input: z.object({}),
          run: (_, { state }) => void (state.thing = circle),
        },
      },
    })
    const model = modelScript([{ calls: [{ name: 'set' }] }, 'Well.', 'Yes.'])
    await using engine = await testEngine({ plugins: [odd], model })
    expect((await engine.turn('Go')).end.status).toBe('finished')
    await engine.turn('Hello')
    expect(model.requests.at(-1)!.messages[0]!.content).toContain('It holds undefined.')
  })

  it('that fits no more after the plugin changed gives way to the default', async () => {
    const before = setter()
    await using engine = await testEngine({ plugins: [keeper], model: before })
    await engine.turn('{"count":7}')
    const changed = definePlugin({
      ...(keeper.definition as object),
      name: 'keeper',
      summary: 'Keeps.',
      state: { count: z.string().default('none') },
      prompt: ({ state }) => `It holds ${JSON.stringify(state)}.`,
    })
    const model = setter()
    await using other = await testEngine({ plugins: [changed], model, store: engine.store })
    await other.turn('Hello')
    expect(held(model)).toEqual({ count: 'none' })
    expect(other.log.join('')).toMatch(/"keeper.count" no longer fits/)
  })

  it('costs no checkpoint when nothing changed', async () => {
    await using engine = await testEngine({ plugins: [keeper], model: setter() })
    const first = await engine.turn('{"count":1}')
    const second = await engine.turn('Hello')
    expect(first.end).toHaveProperty('checkpoint')
    expect(second.end).not.toHaveProperty('checkpoint')
  })

  it('is written down with the step that changed it, however slow the disk is', async () => {
    const counter = definePlugin({
      name: 'counter',
      summary: 'c',
      visibility: 'always',
      state: { count: z.number().default(0) },
      tools: {
        up: {
          description: 'Counts.',
          effect: 'read',
          input: z.object({}),
          run: (_, { state }) => ++state.count,
        },
      },
    })
    const up = { calls: [{ name: 'up' }] }
    const model = modelScript([up, up, up, 'Well.'])
    await using engine = await testEngine({ plugins: [counter], model })
    await engine.turn('Go', { afterStep: () => new Promise((resolve) => setTimeout(resolve, 10)) })
    const counts = (await engine.entries()).map(({ states }) => states?.counter?.count)
    expect(counts).toEqual([1, 2, 3, undefined])
  })
})
