import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, RuntimeError } from '#core'
import { testEngine } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'

interface Seen {
  readonly did: string
  readonly session: string
  readonly signal: AbortSignal
}

function library() {
  const seen: Seen[] = []
  const written: string[] = []
  const plugin = definePlugin({
    name: 'library',
    summary: 'Books.',
    state: { found: z.number().default(0) },
    tools: {
      find_book: {
        description: 'Finds.',
        effect: 'read',
        input: z.object({ title: z.string() }),
        run({ title }, { user, session, signal, state, emit }) {
          seen.push({ did: user.did, session: session.id, signal })
          state.found++
          emit.progress(1, 1)
          emit.component('Book', { title })
          return { title, shelf: 4 }
        },
      },
      reserve: {
        description: 'Reserves.',
        input: z.object({ title: z.string() }),
        approve: true,
        run: ({ title }) => (written.push(title), `reserved ${title}`),
      },
      burn: { description: 'Burns.', input: z.object({}), run: () => 'burnt' },
    },
    subAgents: {
      librarian: {
        description: 'Looks for books.',
        prompt: 'You are the librarian.',
        tools: ['find_book', 'reserve'],
        model: 'small',
      },
    },
  })
  return { plugin, seen, written }
}

/** The large model delegates, the small one is the librarian. */
function models(librarian: readonly Answer[]) {
  const large = modelScript(({ messages }): Answer => {
    const said = messages.filter(({ role }) => role === 'assistant').length
    if (said === 0) return { calls: [{ name: 'load_capability', args: { names: ['library'] } }] }
    if (said === 1) return { calls: [{ name: 'call_librarian', args: { task: 'Find Dune.' } }] }
    return 'It is on shelf 4.'
  })
  const small = modelScript(
    ({ messages }) => librarian[messages.filter(({ role }) => role === 'assistant').length]!,
  )
  return { large, small, model: (name?: string) => (name === 'small' ? small : large) }
}

const find: Answer = { text: 'Looking. ', calls: [{ name: 'find_book', args: { title: 'Dune' } }] }

describe('a sub-agent', () => {
  it('runs with its own prompt, model and tools, and its last words are the result', async () => {
    const { plugin, seen } = library()
    const { large, small, model } = models([find, 'Shelf 4.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Where is Dune?')
    expect(run.end.status).toBe('finished')
    expect(run.text).toBe('It is on shelf 4.')
    const [first] = small.requests as [(typeof small.requests)[number]]
    expect(first.messages.map(({ role, content }) => [role, content.split('\n')[0]])).toEqual([
      ['system', 'You are the librarian.'],
      ['user', 'Find Dune.'],
    ])
    expect(first.tools.map(({ name }) => name)).toEqual(['find_book', 'reserve'])
    expect(unquote(large.requests.at(-1)!.messages.at(-1)!.content)).toBe('Shelf 4.')
    // Every call has a signal of its own; test/agent/tool-time.test.ts shows that it follows the turn.
    const signal = expect.any(AbortSignal)
    expect(seen).toEqual([{ did: run.user.did, session: 'session-1', signal }])
    expect((await engine.transcript()).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'assistant',
    ])
  })

  it('is heard under the id of the call that started it', async () => {
    const { plugin } = library()
    const { model } = models([find, 'Shelf 4.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Where is Dune?')
    const calls = run.of('tool_call').filter(({ toolName }) => toolName !== 'load_capability')
    const parent = calls[0].eventId
    expect(calls.map(({ toolName, status, eventId }) => [toolName, status, eventId])).toEqual([
      ['call_librarian', 'isRunning', parent],
      ['find_book', 'isRunning', parent],
      ['find_book', 'done', parent],
      ['call_librarian', 'done', parent],
    ])
    expect(calls[1].toolCallId).not.toBe(parent)
    expect(run.of('progress')).toMatchObject([{ toolCallId: parent }])
    const [component] = run.of('render_component')
    expect(component).toMatchObject({ parentEventId: parent, componentName: 'Book' })
    const [stored] = (await engine.entries()).flatMap(({ components }) => components ?? [])
    expect(stored).toMatchObject({ eventId: component.eventId, toolCallId: parent })
  })

  it('is refused a tool that it was not given', async () => {
    const { plugin } = library()
    const { small, model } = models([
      { calls: [{ name: 'burn' }, { name: 'load_capability' }] },
      'No.',
    ])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Burn it')
    const results = small.requests[1]!.messages.slice(-2).map(({ content }) => JSON.parse(content))
    expect(results).toMatchObject([{ code: 'NOT_FOUND' }, { code: 'NOT_FOUND' }])
    expect(results[0].hint).toContain('find_book, reserve')
  })

  it('that failed on its way is not begun anew: what it did is done', async () => {
    const { plugin, seen } = library()
    const away = new RuntimeError('UNAVAILABLE', 'The model is away.')
    const { small, model } = models([find, { then: away }])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Where is Dune?')
    expect(run.end.status).toBe('finished')
    expect(small.requests.map(({ messages }) => messages.length)).toEqual([2, 4])
    expect(seen).toHaveLength(1)
  })

  it('that needs a person’s consent waits, and goes on from there', async () => {
    const { plugin, written } = library()
    const { small, model } = models([
      find,
      { calls: [{ name: 'reserve', args: { title: 'Dune' } }] },
      'Reserved.',
    ])
    await using engine = await testEngine({ plugins: [plugin], model })
    const asked = await engine.turn('Reserve Dune')
    expect(asked.end.status).toBe('waiting')
    expect(asked.of('interrupt')).toMatchObject([{ toolName: 'reserve', args: { title: 'Dune' } }])
    const resumed = await engine.resume(asked, { decision: 'approve' })
    expect((await resumed.ended).status).toBe('finished')
    expect(written).toEqual(['Dune'])
    expect(small.requests).toHaveLength(3)
  })

  it('whose process dies goes on where it was, and repeats no model call', async () => {
    const { plugin, seen } = library()
    const { small, model } = models([find, 'Shelf 4.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Where is Dune?', {
      beforeStep({ die }, { messages }) {
        if (messages.at(-1)?.content === 'Shelf 4.') die()
      },
    })
    expect(run.end.status).toBe('lost')
    expect((await engine.carryOn(run)).end.status).toBe('finished')
    expect(seen).toHaveLength(1)
    expect(small.requests).toHaveLength(3)
  })

  it('hears Stop', async () => {
    const { plugin } = library()
    const { small, model } = models([{ text: 'Hm', then: 'hangs' }])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.begin('Where is Dune?')
    const carried = run.ended
    await expect.poll(() => small.requests).toHaveLength(1)
    expect(small.requests[0]!.signal.aborted).toBe(false)
    await run.stop()
    expect((await carried).status).toBe('aborted')
    expect(small.requests[0]!.signal.aborted).toBe(true)
  })

  it('whose model fails is a failed tool, and the turn goes on', async () => {
    const { plugin } = library()
    const { large, model } = models([{ then: new Error('no') }])
    await using engine = await testEngine({ plugins: [plugin], model })
    const run = await engine.turn('Where is Dune?')
    expect(run.end.status).toBe('finished')
    expect(JSON.parse(large.requests.at(-1)!.messages.at(-1)!.content).code).toBe('INTERNAL')
    expect(run.of('error')).toEqual([])
  })

  it('changes the state of its plugin in the thread', async () => {
    const { plugin } = library()
    const { model } = models([find, 'Shelf 4.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Where is Dune?')
    const states = (await engine.entries()).flatMap(({ states }) => states ?? [])
    expect(states).toEqual([{ library: { found: 1 } }])
  })

  it('is a tool that is not offered before its plugin is loaded', async () => {
    const { plugin } = library()
    const { large, model } = models([find, 'Shelf 4.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Where is Dune?')
    const offered = large.requests.map(({ tools }) => tools.map(({ name }) => name))
    expect(offered[0]).not.toContain('call_librarian')
    expect(offered[1]).toContain('call_librarian')
  })
})
