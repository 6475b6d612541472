import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin } from '#core'
import { RunLost } from '../../core/runtime/turns/run.ts'
import { testEngine } from '../support/engine.ts'
import { FakeRuns, type FakeRun } from '../support/fake-run.ts'
import { modelScript, type Answer } from '../support/model-script.ts'

const until = async (check: () => boolean) => {
  while (!check()) await new Promise((resolve) => setTimeout(resolve, 1))
}

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

/** Runs until the process dies at a point that `arm` chooses; what the dead process does later counts for nothing. */
async function dieIn(run: FakeRun, carryOut: (run: FakeRun) => Promise<unknown>) {
  await expect(carryOut(run)).rejects.toBeInstanceOf(RunLost)
}

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
        const runs = new FakeRuns()
        await using engine = await testEngine({ plugins: [plugin], model: model(), runs })
        const run = runs.begin('Book it')
        let died = false
        run.beforeAppend = (_, count) => {
          if (count !== point) return
          died = true
          if (when === 'before') run.lose()
          else setImmediate(() => run.lose())
        }
        const outcome = await engine.carryOut(run).then(
          (end) => end.status,
          (error: unknown) => error,
        )
        if (!died) {
          expect(outcome).toBe('finished')
          break
        }
        points++
        const script = model()
        await using other = await testEngine({
          plugins: [plugin],
          model: script,
          runs,
          store: engine.store,
        })
        const again = runs.takeOver(run)
        expect((await other.carryOut(again)).status).toBe('finished')
        const transcript = runs.transcript()
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
    const runs = new FakeRuns()
    const script = modelScript(({ messages }) =>
      messages.some(({ role }) => role === 'tool')
        ? 'Hm.'
        : { calls: [{ name: 'look' }, { name: 'book' }] },
    )
    await using engine = await testEngine({ plugins: [plugin], model: script, runs })
    const run = runs.begin('Book it')
    const carried = engine.carryOut(run)
    await until(() => started.includes('book'))
    run.lose()
    await expect(carried).rejects.toBeInstanceOf(RunLost)

    const again = runs.takeOver(run)
    expect((await engine.carryOut(again)).status).toBe('finished')
    expect(started.toSorted()).toEqual(['book', 'look', 'look'])
    const results = runs.transcript().filter(({ role }) => role === 'tool')
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
    const runs = new FakeRuns()
    await using engine = await testEngine({ plugins: [plugin], model: model(), runs })
    const run = runs.begin('Book it')
    run.beforeAppend = ({ messages }) => {
      if (messages.some(({ role, content }) => role === 'tool' && content.includes('booked rent')))
        run.lose()
    }
    await dieIn(run, engine.carryOut)
    const again = runs.takeOver(run)
    expect((await engine.carryOut(again)).status).toBe('finished')
    expect(done.writes).toEqual(['rent', 'food'])
    expect(runs.transcript()[5]!.content).toBe('booked rent, 1 in all')
  })

  it('in the answer: the words are said anew, and once in the transcript', async () => {
    const runs = new FakeRuns()
    const dying = modelScript([{ text: 'It is half', then: 'hangs' }])
    await using engine = await testEngine({ model: dying, runs })
    const run = runs.begin('Well?')
    const carried = engine.carryOut(run)
    await until(() => run.of('message').length === 3)
    run.lose()
    await expect(carried).rejects.toBeInstanceOf(RunLost)
    expect(runs.entries()).toEqual([])

    await using other = await testEngine({
      model: modelScript(['It is half past ten.']),
      runs,
      store: engine.store,
    })
    const again = runs.takeOver(run)
    expect((await other.carryOut(again)).status).toBe('finished')
    expect(runs.transcript().map(({ content }) => content)).toEqual([
      'Well?',
      'It is half past ten.',
    ])
  })

  it('after its last words: it ends without another model call', async () => {
    const runs = new FakeRuns()
    const script = modelScript(['Done.'])
    await using engine = await testEngine({ model: script, runs })
    const run = runs.begin('Well?')
    await engine.carryOut(run)
    expect((await engine.carryOut(runs.takeOver(run))).status).toBe('finished')
    expect(script.requests).toHaveLength(1)
  })

  it('after a fault or a stop was written down: it closes as interrupted', async () => {
    const runs = new FakeRuns()
    await using engine = await testEngine({ model: modelScript([{ then: new Error('no') }]), runs })
    const run = runs.begin('Well?')
    expect((await engine.carryOut(run)).status).toBe('failed')
    expect(await engine.carryOut(runs.takeOver(run))).toEqual({ status: 'interrupted' })
  })
})

describe('a run that is another process’s now', () => {
  it('leaves no checkpoint behind, and is not remembered', async () => {
    const { plugin } = ledger()
    const runs = new FakeRuns()
    const script = model()
    await using engine = await testEngine({ plugins: [plugin], model: script, runs })
    const run = runs.begin('Book it')
    run.beforeAppend = ({ messages }) => {
      if (messages.at(-1)?.content === 'All booked.') run.lose()
    }
    await dieIn(run, engine.carryOut)
    const rows = await engine.store.db
      .withTables<{ checkpoints: {} }>()
      .selectFrom('checkpoints')
      .selectAll()
      .execute()
    expect(rows).toEqual([])
    await engine.carryOut(runs.takeOver(run))
    expect(script.requests).toHaveLength(5)
  })

  it('is dropped when the database fails under it', async () => {
    const runs = new FakeRuns()
    await using engine = await testEngine({ model: modelScript(['Hello.']), runs })
    const run = runs.begin('Hi')
    run.beforeAppend = () => {
      throw new Error('the database is gone')
    }
    await expect(engine.carryOut(run)).rejects.toThrow('the database is gone')
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
    const run = engine.runs.begin('A story')
    const carried = engine.carryOut(run)
    await until(() => run.of('message').length === 4)
    run.stop()
    expect((await carried).status).toBe('aborted')
    expect(engine.runs.entries()).toMatchObject([
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
    const run = engine.runs.begin('Go')
    const carried = engine.carryOut(run)
    await until(() => run.of('tool_call').some(({ status }) => status === 'done'))
    run.stop()
    expect((await carried).status).toBe('aborted')
    expect(heard).toBe(run.signal.reason)
    expect(engine.runs.transcript().slice(1)).toMatchObject([
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
    expect(engine.runs.entries().at(-1)!.partial).toBe(true)
    expect((await engine.turn('Hello?')).end.status).toBe('finished')
  })

  it('in the first moment: nothing was said, nothing runs, and the session goes on', async () => {
    const script = modelScript(['Yes?'])
    await using engine = await testEngine({ model: script })
    const run = engine.runs.begin('Go')
    run.stop()
    expect((await engine.carryOut(run)).status).toBe('aborted')
    expect(script.requests).toHaveLength(0)
    expect((await engine.turn('Hello?')).end.status).toBe('finished')
  })

  it('while a layer around the turn does not come to an end', async () => {
    const layer = definePlugin({
      name: 'layer',
      summary: 'l',
      visibility: 'silent',
      middleware: { turn: () => new Promise(() => undefined) },
    })
    await using engine = await testEngine({ plugins: [layer], model: modelScript([]) })
    const run = engine.runs.begin('Go')
    const carried = engine.carryOut(run)
    await new Promise((resolve) => setTimeout(resolve, 20))
    run.stop()
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
    const run = engine.runs.begin('Go')
    const carried = engine.carryOut(run)
    await until(() => engine.runs.effects.size === 1)
    run.stop()
    await carried
    expect([...engine.runs.effects.values()]).toEqual([{ state: 'unknown' }])
  })
})
