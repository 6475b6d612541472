import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { testEngine } from '../support/engine.ts'
import { anybody } from '../support/anybody.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

type ToolOf = NonNullable<AnyPlugin['definition']['tools']>

/** A plugin that is always there, with the given tools. */
const always = (tools: ToolOf, more: object = {}): AnyPlugin =>
  definePlugin({ name: 'kit', summary: 'k', visibility: 'always', ...more, tools: tools as {} })

/** What the model reads of one call, in a turn that makes just this one. */
async function outcomeOf(plugin: AnyPlugin, call: { name: string; args?: unknown }) {
  const model = modelScript([{ calls: [call] }, 'Well.'])
  await using engine = await testEngine({ plugins: [plugin], model })
  const run = await engine.turn('Go')
  const message = model.requests[1]!.messages.at(-1)!
  const ended = run.of('tool_call').at(-1)
  return { content: unquote(message.content), message, ended, run, log: engine.log.join('') }
}

const any = z.object({})
const read = { description: 'Reads.', effect: 'read' as const, input: any }

describe('a call that cannot be carried out tells the model why and what to do', () => {
  const notes = definePlugin({
    name: 'notes',
    summary: 'Notes.',
    tools: {
      add_note: { description: 'Adds.', input: z.object({ text: z.string() }), run: () => 1 },
    },
  })

  it('when its capability is not loaded', async () => {
    const { content, ended } = await outcomeOf(notes, { name: 'add_note', args: { text: 'x' } })
    expect(JSON.parse(content)).toMatchObject({
      code: 'FORBIDDEN',
      error: expect.stringContaining('"notes", which is not loaded'),
      hint: 'Call load_capability with names: ["notes"] first.',
    })
    expect(ended).toMatchObject({ status: 'error', error: expect.stringContaining('not loaded') })
  })

  it('when there is no such tool', async () => {
    const { content } = await outcomeOf(notes, { name: 'add_nots' })
    expect(JSON.parse(content)).toMatchObject({
      code: 'NOT_FOUND',
      hint: 'Did you mean "add_note"?',
    })
    const invented = await outcomeOf(notes, { name: 'launch_rocket' })
    expect(JSON.parse(invented.content).hint).toContain('list_capabilities')
  })

  it('when its arguments do not fit, fault by fault', async () => {
    const input = z.object({ city: z.string().min(2), days: z.number().max(7) })
    const plugin = always({ forecast: { ...read, input, run: () => 'never' } })
    const { content } = await outcomeOf(plugin, { name: 'forecast', args: { city: 'L', days: 9 } })
    expect(JSON.parse(content)).toMatchObject({
      code: 'INVALID_INPUT',
      details: [{ path: 'city' }, { path: 'days' }],
    })
  })

  it('when its arguments are no JSON', async () => {
    const plugin = always({ forecast: { ...read, run: () => 'never' } })
    const { content, run } = await outcomeOf(plugin, { name: 'forecast', args: '{"city": "Lus' })
    expect(JSON.parse(content).error).toMatch(/"forecast" are not JSON: .*JSON/)
    expect(run.of('tool_call')[0].args).toEqual({ value: '{"city": "Lus' })
  })

  it('when the user has not delegated it, with the chain of causes', async () => {
    const plugin = always({
      erase: {
        description: 'Erases.',
        input: z.object({ id: z.string() }),
        can: { can: 'things/erase', with: ({ id }: { id: string }) => `thing:${id}` },
        run: () => 'erased',
      },
    } as ToolOf)
    const model = modelScript([{ calls: [{ name: 'erase', args: { id: '7' } }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.begin('Go', { user: anybody('did:key:z6MkAmina', ['things/read']) })
    await run.ended
    expect(JSON.parse(model.requests[1]!.messages.at(-1)!.content)).toMatchObject({
      code: 'FORBIDDEN',
      error: `The user's delegation does not grant "things/erase" on thing:7.`,
      details: { causes: ['The delegation lacks things/erase.'] },
    })
  })

  it('when it is switched off in this turn', async () => {
    const plugin = always({ night_only: { ...read, enabled: () => false, run: () => 1 } })
    const model = modelScript([{ calls: [{ name: 'night_only' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    expect(model.requests[0]!.tools.map(({ name }) => name)).not.toContain('night_only')
    expect(model.requests[1]!.messages.at(-1)!.content).toContain('switched off')
  })
})

describe('whatever a tool does, the turn goes on', () => {
  it('it throws: the model reads a plain sentence, the log has the cause', async () => {
    const plugin = always({
      broken: { ...read, run: () => Promise.reject(new TypeError('secret of the house')) },
    })
    const { content, log } = await outcomeOf(plugin, { name: 'broken' })
    expect(JSON.parse(content)).toMatchObject({
      code: 'INTERNAL',
      error: 'The tool "broken" failed.',
    })
    expect(content).not.toContain('secret')
    expect(log).toContain('secret of the house')
  })

  it('it throws an error of ours: code, sentence and hint reach the model', async () => {
    const thrown = new RuntimeError('CONFLICT', 'It exists.', { hint: 'Use its id.' })
    const plugin = always({ create: { ...read, run: () => Promise.reject(thrown) } })
    const { content } = await outcomeOf(plugin, { name: 'create' })
    expect(JSON.parse(content)).toEqual({
      error: 'It exists.',
      code: 'CONFLICT',
      hint: 'Use its id.',
    })
  })

  it('it returns a circle, a bigint, nothing, or what is no data', async () => {
    const circle: Record<string, unknown> = { name: 'ring', twice: [{ n: 1 }] }
    circle.self = circle
    circle.big = 12n
    const plugin = always({
      ring: { ...read, run: () => circle },
      nothing: { ...read, run: () => undefined },
      method: { ...read, run: () => () => 1 },
      huge_number: { ...read, run: () => 2n ** 80n },
    })
    const ring = await outcomeOf(plugin, { name: 'ring' })
    expect(JSON.parse(ring.content)).toEqual({
      name: 'ring',
      twice: [{ n: 1 }],
      self: '[circular]',
      big: '12',
    })
    expect((await outcomeOf(plugin, { name: 'nothing' })).content).toBe('Done.')
    expect((await outcomeOf(plugin, { name: 'method' })).content).toContain('=>')
    expect((await outcomeOf(plugin, { name: 'huge_number' })).content).toBe(
      '"1208925819614629174706176"',
    )
  })

  it('it returns megabytes: the model gets 32 KiB of JSON and is told how much there is', async () => {
    const plugin = always({
      flood: { ...read, run: () => 'é'.repeat(3_000_000) },
      flood_of_rows: { ...read, run: () => Array.from({ length: 200_000 }, (_, i) => ({ i })) },
    })
    for (const name of ['flood', 'flood_of_rows']) {
      const { content, ended } = await outcomeOf(plugin, { name })
      expect(Buffer.byteLength(content)).toBeLessThanOrEqual(32 * 1024)
      expect(JSON.stringify(JSON.parse(content))).toMatch(
        /"\$more":\{"handle":"r1","shown":\d+,"of":(3000000|200000)\}/,
      )
      expect(content).not.toContain('\uFFFD')
      expect(ended.output).toBe(content)
    }
  })

  it('it breaks its own promise about the output', async () => {
    const plugin = always({
      promise: { ...read, output: z.object({ n: z.number() }), run: () => ({ n: 'one' }) },
    } as ToolOf)
    const { content, log } = await outcomeOf(plugin, { name: 'promise' })
    expect(JSON.parse(content).code).toBe('INTERNAL')
    expect(log).toContain('The tool "promise" failed')
  })

  it('it renders what is no data: the event and the journal hold data', async () => {
    const odd: Record<string, unknown> = { n: 1n }
    odd.self = odd
    const plugin = always({
      show: { ...read, run: (_: unknown, { emit }: any) => emit.component('Odd', odd) },
    } as ToolOf)
    const { run } = await outcomeOf(plugin, { name: 'show' })
    expect(run.of('render_component')[0].args).toEqual({ n: '1', self: '[circular]' })
  })

  it('a model that asks for a hundred calls at once gets 64 and is told about the rest', async () => {
    let ran = 0
    const plugin = always({ count: { ...read, run: () => ++ran } })
    const calls = Array.from({ length: 100 }, () => ({ name: 'count' }))
    const model = modelScript([{ calls }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Count')
    const results = model.requests[1]!.messages.filter(({ role }) => role === 'tool')
    expect([ran, results.length]).toEqual([64, 100])
    expect(results.at(-1)!.content).toContain('more than 64 calls at once')
  })
})

describe('the order of things around a call', () => {
  it('is gate, arguments, middleware from outside in, capability, tool, and back', async () => {
    const seen: string[] = []
    const layer = (name: string) =>
      definePlugin({
        name,
        summary: name,
        visibility: 'silent',
        middleware: {
          async tool(call, ctx, next) {
            seen.push(
              `${name} ${call.plugin} ${call.effect} ${JSON.stringify(call.args)} ${ctx.user.did}`,
            )
            const value = await next()
            seen.push(`${name} has ${JSON.stringify(value)}`)
            return value
          },
        },
      })
    const kit = always({
      add: {
        ...read,
        input: z.object({ n: z.coerce.number() }),
        can: { can: 'things/add' },
        run: ({ n }: { n: number }) => (seen.push(`runs ${n}`), n + 1),
      },
    } as ToolOf)
    const model = modelScript([{ calls: [{ name: 'add', args: { n: '1' } }] }, 'Well.'])
    const user = anybody('did:key:z6MkAmina')
    const can: typeof user.can = (ability) => (seen.push(`can ${ability}`), true)
    await using engine = await testEngine({ plugins: [layer('outer'), layer('inner'), kit], model })
    await engine.turn('Go', { user: { ...user, can } })
    expect(seen).toEqual([
      'outer kit read {"n":1} did:key:z6MkAmina',
      'inner kit read {"n":1} did:key:z6MkAmina',
      'can things/add',
      'runs 1',
      'inner has 2',
      'outer has 2',
    ])
  })

  it('lets a layer change the arguments and the result, or answer by itself', async () => {
    const layer = definePlugin({
      name: 'layer',
      summary: 'l',
      visibility: 'silent',
      middleware: {
        async tool(call, _, next) {
          if (call.name === 'cached') return 'from memory'
          call.args = { n: 41 }
          return { answer: await next() }
        },
      },
    })
    const kit = always({
      cached: { ...read, run: () => 'never' },
      add: { ...read, input: z.object({ n: z.number() }), run: ({ n }: { n: number }) => n + 1 },
    } as ToolOf)
    const model = modelScript([
      { calls: [{ name: 'cached' }, { name: 'add', args: { n: 1 } }] },
      'Well.',
    ])
    await using engine = await testEngine({ plugins: [layer, kit], model })
    await engine.turn('Go')
    const results = model.requests[1]!.messages.slice(-2).map(({ content }) => unquote(content))
    expect(results).toEqual(['from memory', '{"answer":42}'])
  })
})

describe('the guards', () => {
  it('the same failing call is not tried a fourth time', async () => {
    let tries = 0
    const plugin = always({
      stubborn: {
        ...read,
        input: z.object({ id: z.string() }),
        run: () => {
          tries++
          throw new RuntimeError('NOT_FOUND', 'There is no such thing.')
        },
      },
    } as ToolOf)
    const same: Answer = { calls: [{ name: 'stubborn', args: { id: 'a' } }] }
    const model = modelScript([
      same,
      same,
      same,
      same,
      { calls: [{ name: 'stubborn', args: { id: 'b' } }] },
      'Well.',
    ])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    const results = model.requests[5]!.messages.filter(({ role }) => role === 'tool')
    expect(results.map(({ content }) => JSON.parse(unquote(content)).code)).toEqual([
      'NOT_FOUND',
      'NOT_FOUND',
      'NOT_FOUND',
      'REPEATED_CALL',
      'NOT_FOUND',
    ])
    expect(tries).toBe(4)
  })

  it('a read that fails for the moment is tried once more, a write is not', async () => {
    const tries = { read: 0, write: 0, connection: 0, wrong: 0 }
    const unwell = () => new RuntimeError('UPSTREAM_TIMEOUT', 'It was slow.')
    const plugin = always({
      look: {
        ...read,
        run: () => {
          if (++tries.read === 1) throw unwell()
          return 'seen'
        },
      },
      fetch_it: {
        ...read,
        run: () => {
          if (++tries.connection === 1)
            throw new TypeError('fetch failed', {
              cause: Object.assign(new Error(), { code: 'ECONNRESET' }),
            })
          return 'fetched'
        },
      },
      look_wrong: {
        ...read,
        run: () => {
          tries.wrong++
          throw new RuntimeError('NOT_FOUND', 'No.')
        },
      },
      post: {
        description: 'Writes.',
        input: any,
        run: () => {
          tries.write++
          throw unwell()
        },
      },
    })
    const calls = ['look', 'fetch_it', 'look_wrong', 'post'].map((name) => ({ name }))
    const model = modelScript([{ calls }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    expect(tries).toEqual({ read: 2, connection: 2, wrong: 1, write: 1 })
    const results = model.requests[1]!.messages.slice(-4).map(({ content }) => unquote(content))
    expect(results.slice(0, 2)).toEqual(['seen', 'fetched'])
  })

  it('a model that goes in circles is stopped after 25 calls with a plain message', async () => {
    const model = modelScript(() => ({ text: 'Again. ', calls: [{ name: 'list_capabilities' }] }))
    await using engine = await testEngine({ model })
    const run = await engine.turn('Go')
    expect(run.end.status).toBe('finished')
    expect(model.requests).toHaveLength(25)
    expect(run.text).toMatch(/more than 25 steps/)
    expect((await engine.transcript()).at(-1)).toMatchObject({
      role: 'assistant',
      content: expect.stringMatching(/more than 25 steps/),
    })
  })
})

describe('what reaches a tool', () => {
  it('is the user, session, room and signal of its own turn, also when turns run at once', async () => {
    const seen: Record<string, unknown>[] = []
    const plugin = definePlugin({
      name: 'probe',
      summary: 'p',
      tools: {
        probe: {
          ...read,
          input: z.object({ n: z.number() }),
          async run({ n }, { user, session, room, requestId, signal }) {
            await new Promise((resolve) => setTimeout(resolve, 10 - n))
            seen.push({ n, did: user.did, session: session.id, room, requestId, signal })
          },
        },
      },
    })
    const model = modelScript(({ messages }) =>
      messages.length === 2
        ? { calls: [{ name: 'load_capability', args: { names: ['probe'] } }] }
        : messages.length === 4
          ? { calls: [1, 2, 3].map((n) => ({ name: 'probe', args: { n } })) }
          : 'Done.',
    )
    await using engine = await testEngine({ plugins: [plugin], model })
    const begun = ['a', 'b', 'c'].map((session) =>
      engine.begin('Go', {
        session,
        user: anybody(`did:key:${session}`),
        room: `room ${session}`,
      }),
    )
    const runs = await Promise.all(begun)
    await Promise.all(runs.map((run) => run.ended))
    expect(seen).toHaveLength(9)
    // Every call has a signal of its own; test/agent/tool-time.test.ts shows whose turn it follows.
    expect(new Set(seen.map(({ signal }) => signal)).size).toBe(9)
    for (const { sessionId, requestId } of runs) {
      const own = seen.filter(({ session }) => session === sessionId)
      expect(own.map(({ n }) => n).toSorted()).toEqual([1, 2, 3])
      for (const each of own)
        expect(each).toMatchObject({
          did: `did:key:${sessionId}`,
          room: `room ${sessionId}`,
          requestId,
        })
    }
  })

  it('a tool that goes on after its turn is heard by nobody', async () => {
    let late!: () => void
    const plugin = always({
      linger: {
        ...read,
        run: (_: unknown, { emit }: any) => {
          late = () => {
            emit.component('Late', {})
            emit.progress(1)
          }
          return 'back soon'
        },
      },
    } as ToolOf)
    const { run } = await outcomeOf(plugin, { name: 'linger' })
    const count = run.heard.length
    late()
    expect(run.heard).toHaveLength(count)
  })
})

describe('a write', () => {
  it('is marked before it starts, after its call is written down, and when it is done', async () => {
    const order: string[] = []
    const plugin = always({
      post: { description: 'Writes.', input: any, run: () => (order.push('runs'), 'posted') },
    })
    const model = modelScript([{ calls: [{ name: 'post' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go', {
      onStart({ handle: { effects } }) {
        const { begin, finish } = effects
        Object.assign(effects, {
          begin: async (...args: Parameters<typeof begin>) => {
            order.push(`begins, ${(await engine.entries()).length} entries`)
            return await begin(...args)
          },
          finish: async (...args: Parameters<typeof finish>) => {
            order.push(`ends with ${args[1]}`)
            await finish(...args)
          },
        })
      },
    })
    expect(order).toEqual(['begins, 1 entries', 'runs', 'ends with posted'])
  })

  it('that failed is marked as failed', async () => {
    const plugin = always({
      post: {
        description: 'Writes.',
        input: any,
        run: () => Promise.reject(new RuntimeError('CONFLICT', 'Taken.')),
      },
    })
    const model = modelScript([{ calls: [{ name: 'post' }] }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    expect(await engine.effects()).toEqual([
      { state: 'done', failed: true, content: '{"error":"Taken.","code":"CONFLICT"}' },
    ])
  })
})
