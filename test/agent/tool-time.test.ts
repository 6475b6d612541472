import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type AnyPlugin } from '#core'
import { scriptedModel, testApp } from '#core/testing'
import { modelScript } from '../support/model-script.ts'
import { testEngine } from '../support/engine.ts'
import { unquote } from '../support/quotation.ts'

type ToolOf = NonNullable<Parameters<typeof definePlugin>[0]['tools']>

const always = (tools: object): AnyPlugin =>
  definePlugin({ name: 'kit', summary: 'k', visibility: 'always', tools: tools as ToolOf as {} })

const tool = { description: 'Works.', input: z.object({}), timeoutMs: 20 }
const read = { ...tool, effect: 'read' as const, foreign: false }
const forever = () => new Promise<never>(() => undefined)

/** Calls the tools of a plugin in one step, and reads what the model reads of each. */
async function readsOf(tools: object) {
  const names = Object.keys(tools)
  const model = modelScript([{ calls: names.map((name) => ({ name })) }, 'Well.'])
  await using engine = await testEngine({ plugins: [always(tools)], model })
  const run = await engine.turn('Go')
  expect(run.end.status).toBe('finished')
  const results = model.requests[1]!.messages.filter(({ role }) => role === 'tool')
  return {
    results: results.map(({ content }) => unquote(content)),
    effects: await engine.effects(),
  }
}

describe('a tool that takes longer than its time', () => {
  it('ends as TOOL_TIMEOUT: a read may be called again, the outcome of a write is unknown', async () => {
    const { results, effects } = await readsOf({
      look: { ...read, run: forever },
      pay: { ...tool, run: forever },
    })
    expect(results.map((text) => JSON.parse(text))).toEqual([
      {
        error: '"look" did not end within 20 ms.',
        code: 'TOOL_TIMEOUT',
        hint: 'It only reads: you may call it again, or ask for less at once.',
      },
      {
        error: '"pay" did not end within 20 ms, outcome unknown: it may have happened or not.',
        code: 'TOOL_TIMEOUT',
        hint: 'Do not repeat the call. Find out with a reading tool, or tell the user.',
      },
    ])
    // Another process that takes the run over reads the same of the write.
    expect(effects).toMatchObject([{ state: 'done', failed: true, content: results[1] }])
  })

  it('does not run where its `approve` takes so long: nothing has happened then', async () => {
    const ran: string[] = []
    const run = () => void ran.push('paid')
    const { results, effects } = await readsOf({ pay: { ...tool, approve: forever, run } })
    expect(results.map((text) => JSON.parse(text))).toEqual([
      {
        error:
          '"pay" was not run: within 20 ms it was not settled whether a person has to approve it.',
        code: 'TOOL_TIMEOUT',
        hint: 'Nothing has happened. You may call it again, or tell the user.',
      },
    ])
    expect([ran, effects]).toEqual([[], []])
  })

  it('hears of it by its signal, and what it says within a second counts', async () => {
    const heard = (signal: AbortSignal) =>
      new Promise<RuntimeError>((resolve) =>
        signal.addEventListener('abort', () => resolve(signal.reason)),
      )
    const { results } = await readsOf({
      finishes: {
        ...read,
        run: async (_: unknown, { signal }: { signal: AbortSignal }) => (await heard(signal)).code,
      },
      gives_up: {
        ...read,
        async run(_: unknown, { signal }: { signal: AbortSignal }) {
          await heard(signal)
          signal.throwIfAborted()
        },
      },
      breaks: {
        ...read,
        async run(_: unknown, { signal }: { signal: AbortSignal }) {
          await heard(signal)
          throw new TypeError('The connection broke.')
        },
      },
    })
    expect(results[0]).toBe('TOOL_TIMEOUT')
    expect(JSON.parse(results[1]!).code).toBe('TOOL_TIMEOUT')
    expect(JSON.parse(results[2]!).code).toBe('TOOL_TIMEOUT')
  })

  it('has the time of TOOL_TIMEOUT_MS when it sets none', async () => {
    const { timeoutMs: _, ...usual } = tool
    const plugin = always({ wait: { ...usual, effect: 'read', run: forever } })
    const model = scriptedModel([{ call: 'wait' }, 'Well.'])
    await using app = await testApp({ plugins: [plugin], model, env: { TOOL_TIMEOUT_MS: '15' } })
    const said = await (await app.user()).say('Go')
    expect(JSON.stringify(said.of('tool_call').at(-1))).toContain('did not end within 15 ms')
  })
})

it('the time in which a person is asked does not count', async () => {
  const plugin = always({ pay: { ...tool, approve: true, run: () => 'paid' } })
  const model = modelScript([{ calls: [{ name: 'pay' }] }, 'Well.'])
  await using engine = await testEngine({ plugins: [plugin], model })
  const run = await engine.turn({ message: 'Pay', approvals: true })
  expect(run.end.status).toBe('waiting')
  await new Promise((resolve) => setTimeout(resolve, 60))
  await engine.decide(run, { decision: 'approve' })
  expect(model.requests[1]!.messages.at(-1)!.content).toBe('paid')
})

it('a tool that ends in time is not disturbed, and its signal follows its turn alone', async () => {
  const signals = new Map<string, AbortSignal>()
  const plugin = always({
    quick: { ...tool, run: () => 'done' },
    wait: {
      ...read,
      timeoutMs: 60_000,
      run(_: unknown, { session, signal }: { session: { id: string }; signal: AbortSignal }) {
        signals.set(session.id, signal)
        return forever()
      },
    },
  })
  const model = modelScript(() => ({ calls: [{ name: 'quick' }, { name: 'wait' }] }))
  await using engine = await testEngine({ plugins: [plugin], model })
  const [one, two] = await Promise.all([
    engine.begin('Go', { session: 'one' }),
    engine.begin('Go', { session: 'two' }),
  ])
  await expect.poll(() => signals.size).toBe(2)
  await one.stop()
  expect((await one.ended).status).toBe('aborted')
  expect([signals.get('one')?.aborted, signals.get('two')?.aborted]).toEqual([true, false])
  await two.stop()
  await two.ended
  expect(signals.get('two')?.aborted).toBe(true)
})

it.each([0, -1, 1.5, '5s', 3_600_001, Number.NaN, null])(
  'a timeoutMs of %j stops the boot',
  async (timeoutMs) => {
    const plugin = always({ look: { ...read, timeoutMs, run: () => 1 } })
    await expect(testApp({ plugins: [plugin] })).rejects.toMatchObject({
      code: 'BOOT_FAILED',
      message: expect.stringMatching(/the tool "look" has a "timeoutMs" of .*whole number/s),
    })
  },
)

it('an effect that is none, a "can" that is text and an input that is no schema stop the boot with what to write', async () => {
  const plugin = always({
    look: { ...read, effect: 'reads', run: () => 1 },
    note: { ...tool, can: 'notes/write', run: () => 1 },
    odd: { ...tool, effect: 7, can: null, run: () => 1 },
    bare: { ...tool, input: undefined, run: () => 1 },
    plain: { ...tool, input: { city: 'string' }, run: () => 1 },
  })
  const fault: RuntimeError = await testApp({ plugins: [plugin] }).then(
    () => expect.unreachable(),
    (error) => error,
  )
  expect(fault.message).toContain('the tool "look" has an "effect" of "reads".')
  expect(fault.message).toContain('Did you mean "read"?')
  expect(fault.message).toContain('the tool "note" has a "can" of "notes/write".')
  expect(fault.message).toContain('It is an object: can: { can: "notes/write" }.')
  expect(fault.message).toContain('the tool "odd" has an "effect" of 7.')
  expect(fault.message).toContain('the tool "odd" has a "can" of null.')
  expect(fault.message).toContain('the tool "bare" has no input schema.')
  expect(fault.message).toContain('the tool "plain" has an input that is no schema.')
  expect(fault.message).toContain('Write input: z.object({ city: z.string() }), or z.object({})')
})
