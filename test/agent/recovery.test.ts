import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError, type Message } from '#core'
import { testEngine } from '../support/engine.ts'
import type { Carried } from '../support/test-run.ts'
import { modelScript, type Answer } from '../support/model-script.ts'

/** Reads, writes, loads: the steps of a turn that touches everything a journal has to hold. */
function ledger() {
  const done = { reads: 0, writes: [] as string[] }
  const plugin = definePlugin({
    name: 'ledger',
    summary: 'A ledger.',
    state: { entries: z.number().default(0) },
    tools: {
      look: {
        description: 'Reads.',
        effect: 'read',
        // Its own books.
        foreign: false,
        input: z.object({}),
        run: () => ++done.reads,
      },
      book: {
        description: 'Writes.',
        input: z.object({ what: z.string() }),
        run({ what }, { state }) {
          done.writes.push(what)
          state.entries++
          return `booked ${what}, ${state.entries} in all`
        },
      },
    },
  })
  return { plugin, done }
}

const answers: readonly Answer[] = [
  { text: 'One moment. ', calls: [{ name: 'load_capability', args: { names: ['ledger'] } }] },
  { calls: [{ name: 'look' }, { name: 'book', args: { what: 'rent' } }] },
  { calls: [{ name: 'book', args: { what: 'food' } }] },
  'All booked.',
]

/** Answers by what was said so far, as a model does: a call that is repeated is answered alike. */
const model = () =>
  modelScript(
    ({ messages }) => answers[messages.filter(({ role }) => role === 'assistant').length] ?? 'Yes.',
  )

describe('a run whose process dies is taken over and goes on exactly where it was', () => {
  const uninterrupted = [
    'user',
    'assistant',
    'tool',
    'assistant',
    'tool',
    'tool',
    'assistant',
    'tool',
    'assistant',
  ]

  it('at every write to the journal: before it, and after it', async () => {
    let points = 0
    for (const when of ['before', 'after'] as const)
      for (let point = 0; ; point++) {
        const { plugin, done } = ledger()
        await using engine = await testEngine({ plugins: [plugin], model: model() })
        let died = false
        const dieHere = ({ die }: Carried, _: unknown, nth: number) => {
          if (nth !== point) return
          died = true
          die()
        }
        const step = when === 'before' ? { beforeStep: dieHere } : { afterStep: dieHere }
        const run = await engine.turn('Book it', step)
        if (!died) {
          expect(run.end.status).toBe('finished')
          break
        }
        expect(run.end.status).toBe('lost')
        points++
        const script = model()
        await using other = await testEngine({
          plugins: [plugin],
          model: script,
          store: engine.store,
        })
        expect((await other.carryOn(run)).end.status).toBe('finished')
        const transcript = await engine.transcript()
        expect(transcript.map(({ role }) => role)).toEqual(uninterrupted)
        expect(transcript.at(-1)!.content).toBe('All booked.')
        expect(done.writes).toEqual(['rent', 'food'])
        const next = await other.turn('And now?')
        expect(next.end.status).toBe('finished')
        expect(script.requests.at(-1)!.tools.map(({ name }) => name)).toContain('book')
      }
    expect(points).toBeGreaterThanOrEqual(10)
  })

  it('in the middle of a write: it is never run again, and the model knows that it may have happened', async () => {
    const started: string[] = []
    const plugin = definePlugin({
      name: 'ledger',
      summary: 'A ledger.',
      visibility: 'always',
      tools: {
        look: {
          description: 'Reads.',
          effect: 'read',
          input: z.object({}),
          run: () => (started.push('look'), 'seen'),
        },
        book: {
          description: 'Writes.',
          input: z.object({}),
          run: () => (started.push('book'), new Promise(() => undefined)),
        },
      },
    })
    const script = modelScript(({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? 'Hm.'
        : { calls: [{ name: 'look' }, { name: 'book' }] },
    )
    await using engine = await testEngine({ plugins: [plugin], model: script })
    const run = await engine.begin('Book it')
    await expect.poll(() => started).toContain('book')
    run.die()
    expect((await run.ended).status).toBe('lost')

    expect((await engine.carryOn(run)).end.status).toBe('finished')
    expect(started.toSorted()).toEqual(['book', 'look', 'look'])
    const results = (await engine.transcript()).filter(({ role }) => role === 'tool')
    expect(results).toMatchObject([
      { name: 'look', content: 'seen' },
      {
        name: 'book',
        failed: true,
        content: expect.stringContaining('interrupted, outcome unknown'),
      },
    ])
    expect(script.requests).toHaveLength(2)
  })

  it('between a write and its result in the journal: the model reads the recorded result', async () => {
    const { plugin, done } = ledger()
    await using engine = await testEngine({ plugins: [plugin], model: model() })
    const run = await engine.turn('Book it', {
      beforeStep({ die }, { messages }) {
        const isRent = ({ role, content }: Message) =>
          role === 'tool' && content.includes('booked rent')
        if (messages.some(isRent)) die()
      },
    })
    expect(run.end.status).toBe('lost')
    expect((await engine.carryOn(run)).end.status).toBe('finished')
    expect(done.writes).toEqual(['rent', 'food'])
    expect((await engine.transcript())[5]!.content).toBe('booked rent, 1 in all')
  })

  it('in the answer: the words are said anew, and once in the transcript', async () => {
    const dying = modelScript([{ text: 'It is half', then: 'hangs' }])
    await using engine = await testEngine({ model: dying })
    const run = await engine.begin('Well?')
    await run.hears('message', 3)
    run.die()
    expect((await run.ended).status).toBe('lost')
    expect(await engine.entries()).toEqual([])

    await using other = await testEngine({
      model: modelScript(['It is half past ten.']),
      store: engine.store,
    })
    expect((await other.carryOn(run)).end.status).toBe('finished')
    expect((await engine.transcript()).map(({ content }) => content)).toEqual([
      'Well?',
      'It is half past ten.',
    ])
  })

  it('after its last words: it ends without another model call', async () => {
    const script = modelScript(['Done.'])
    await using engine = await testEngine({ model: script })
    const run = await engine.turn('Well?', { afterStep: ({ die }) => die() })
    expect(run.end.status).toBe('lost')
    expect((await engine.carryOn(run)).end.status).toBe('finished')
    expect(script.requests).toHaveLength(1)
  })

  it('after a fault or a stop was written down: it closes as interrupted', async () => {
    await using engine = await testEngine({ model: modelScript([{ then: new Error('no') }]) })
    const run = await engine.turn('Well?', { afterStep: ({ die }) => die() })
    expect(run.end.status).toBe('lost')
    expect((await engine.carryOn(run)).end).toEqual({ status: 'interrupted' })
  })
})

describe('a run that is another process’s now', () => {
  it('leaves no checkpoint behind, and is not remembered', async () => {
    const { plugin } = ledger()
    const script = model()
    await using engine = await testEngine({ plugins: [plugin], model: script })
    const run = await engine.turn('Book it', {
      beforeStep({ die }, { messages }) {
        if (messages.at(-1)?.content === 'All booked.') die()
      },
    })
    expect(run.end.status).toBe('lost')
    const rows = await engine.store.db
      .withTables<{ checkpoints: {} }>()
      .selectFrom('checkpoints')
      .selectAll()
      .execute()
    expect(rows).toEqual([])
    await engine.carryOn(run)
    expect(script.requests).toHaveLength(5)
  })

  it('is dropped when the database fails under it', async () => {
    await using engine = await testEngine({ model: modelScript(['Hello.']) })
    const gone = new RuntimeError('DATABASE_UNREACHABLE', 'The database is gone.')
    const run = await engine.turn('Hi', {
      beforeStep() {
        throw gone
      },
    })
    expect(run.end.status).toBe('lost')
    expect(engine.log.join('')).toContain('A run was dropped')
    expect(run.of('error')).toEqual([])
  })
})

describe('Stop', () => {
  it('in the answer: the words stay, marked as incomplete', async () => {
    const script = modelScript([
      { text: 'Once upon a time', then: 'hangs whatever happens' },
      'Yes?',
    ])
    await using engine = await testEngine({ model: script })
    const run = await engine.begin('A story')
    const carried = run.ended
    await run.hears('message', 4)
    await run.stop()
    expect((await carried).status).toBe('aborted')
    expect(await engine.entries()).toMatchObject([
      { messages: [{ role: 'assistant', content: 'Once upon a time' }], partial: true },
    ])
    expect(run.of('error')).toEqual([])
    await engine.turn('Hello?')
    expect(script.requests[1]!.messages.map(({ content }) => content).slice(1)).toEqual([
      'A story',
      'Once upon a time',
      'Hello?',
    ])
  })

  it('while tools run: each sees its signal, finished ones keep their result, the others are open', async () => {
    let heard: unknown
    const plugin = definePlugin({
      name: 'kit',
      summary: 'k',
      visibility: 'always',
      tools: {
        quick: { description: 'Quick.', effect: 'read', input: z.object({}), run: () => 'quickly' },
        polite: {
          description: 'Listens.',
          effect: 'read',
          input: z.object({}),
          run: (_, { signal }) =>
            new Promise((_, reject) =>
              signal.addEventListener(
                'abort',
                () => ((heard = signal.reason), reject(signal.reason)),
              ),
            ),
        },
        deaf: {
          description: 'Does not.',
          input: z.object({}),
          run: () => new Promise(() => undefined),
        },
      },
    })
    const calls = [{ name: 'quick' }, { name: 'polite' }, { name: 'deaf' }]
    const script = modelScript([{ text: 'Trying. ', calls }, 'Yes?'])
    await using engine = await testEngine({ plugins: [plugin], model: script })
    const run = await engine.begin('Go')
    const carried = run.ended
    await expect.poll(() => run.of('tool_call').some(({ status }) => status === 'done')).toBe(true)
    await run.stop()
    expect((await carried).status).toBe('aborted')
    expect(heard).toBe(run.handle.signal.reason)
    expect((await engine.transcript()).slice(1)).toMatchObject([
      { role: 'assistant', content: 'Trying. ' },
      { role: 'tool', name: 'quick', content: 'quickly' },
      { role: 'tool', name: 'polite', failed: true, content: expect.stringContaining('stopped') },
      {
        role: 'tool',
        name: 'deaf',
        failed: true,
        content: expect.stringContaining('outcome is unknown'),
      },
    ])
    expect((await engine.entries()).at(-1)!.partial).toBe(true)
    expect((await engine.turn('Hello?')).end.status).toBe('finished')
  })

  it('in the first moment: nothing was said, nothing runs, and the session goes on', async () => {
    const script = modelScript(['Yes?'])
    await using engine = await testEngine({ model: script })
    const run = await engine.turn('Go', { onStart: ({ stop }) => stop() })
    expect(run.end.status).toBe('aborted')
    expect(script.requests).toHaveLength(0)
    expect((await engine.turn('Hello?')).end.status).toBe('finished')
  })

  it('while a layer around the turn does not come to an end', async () => {
    const entered = Promise.withResolvers<void>()
    const layer = definePlugin({
      name: 'layer',
      summary: 'l',
      visibility: 'silent',
      middleware: { turn: () => (entered.resolve(), new Promise(() => undefined)) },
    })
    await using engine = await testEngine({ plugins: [layer], model: modelScript([]) })
    const run = await engine.begin('Go')
    const carried = run.ended
    await entered.promise
    await run.stop()
    expect((await carried).status).toBe('aborted')
  })

  it('keeps a write open that was begun: a later takeover knows nothing of its outcome', async () => {
    const plugin = definePlugin({
      name: 'kit',
      summary: 'k',
      visibility: 'always',
      tools: {
        post: {
          description: 'Writes.',
          input: z.object({}),
          run: () => new Promise(() => undefined),
        },
      },
    })
    await using engine = await testEngine({
      plugins: [plugin],
      model: modelScript([{ calls: [{ name: 'post' }] }]),
    })
    const run = await engine.begin('Go')
    const carried = run.ended
    await expect.poll(() => engine.effects()).toHaveLength(1)
    await run.stop()
    await carried
    expect(await engine.effects()).toMatchObject([{ state: 'started' }])
  })
})
