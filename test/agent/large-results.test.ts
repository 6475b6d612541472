import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { definePlugin, type AnyPlugin } from '#core'
import { testApp } from '#core/testing'
import { withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import { purgeRuns } from '../../core/runtime/turns/journal/retention.ts'
import { RunStore } from '../../core/runtime/turns/journal/store.ts'
import { openStore } from '../../core/runtime/store/store.ts'
import { anybody } from '../support/anybody.ts'
import { onEachDatabase } from '../support/each-database.ts'
import { testEngine, withTables } from '../support/engine.ts'
import { modelScript, type Answer } from '../support/model-script.ts'
import { unquote } from '../support/quotation.ts'
import { silent } from '../support/silent-log.ts'

type ToolOf = NonNullable<Parameters<typeof definePlugin>[0]['tools']>

const kit = (tools: object): AnyPlugin =>
  definePlugin({ name: 'kit', summary: 'k', visibility: 'always', tools: tools as ToolOf as {} })
const read = { description: 'Reads.', effect: 'read' as const, foreign: false, input: z.object({}) }
/** 1,126 items of about a kilobyte: 1.1 MB. */
const rows = Array.from({ length: 1126 }, (_, n) => ({ n, words: `${n} `.repeat(200) }))
const whole = kit({ list: { ...read, run: () => rows } })

/** Reads the newest result as data. */
const newest = (messages: readonly { readonly content: string }[]) =>
  JSON.parse(unquote(messages.at(-1)!.content))

/** What the model reads of one call. */
async function contentOf(run: () => unknown, more: object = {}) {
  const model = modelScript([{ calls: [{ name: 'work' }] }, 'Well.'])
  const plugin = kit({ work: { ...read, ...more, run } })
  await using engine = await testEngine({ plugins: [plugin], model })
  await engine.turn('Go')
  return unquote(model.requests[1]!.messages.at(-1)!.content)
}

/** A model that lists the rows and pages on until there is no more; `pages` gets what it read. */
function pager(pages: any[], after: Answer = 'All read.') {
  return modelScript(({ messages }) => {
    if (messages.at(-1)!.role === 'user') return { calls: [{ name: 'list' }] }
    const page = newest(messages)
    pages.push(page)
    const more = Array.isArray(page) ? page.at(-1).$more : undefined
    const from = more ? more.shown : page.next
    if (from === undefined) return after
    return { calls: [{ name: 'read_result', args: { handle: 'r1', from } }] }
  })
}

describe('a result that is too long stays JSON, and says where it was cut', () => {
  it('an array loses whole items from the end', async () => {
    const content = await contentOf(() => rows)
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(32 * 1024)
    const items = JSON.parse(content)
    const { $more } = items.pop()
    expect($more).toEqual({ handle: 'r1', shown: items.length, of: 1126 })
    expect(items).toEqual(rows.slice(0, items.length))
    expect(items.length).toBeGreaterThan(20)
  })

  it('an array in an object is cut in its place, and small values stay', async () => {
    const content = JSON.parse(await contentOf(() => ({ total: 1126, 'a/b': rows, end: 'here' })))
    expect(content).toMatchObject({ total: 1126, end: 'here' })
    const { $more } = content['a/b'].at(-1)
    expect($more).toMatchObject({ handle: 'r1', path: '/a~1b', of: 1126 })
  })

  it('a text loses its tail, between two characters', async () => {
    const content = await contentOf(() => '🌍é'.repeat(100_000))
    expect(Buffer.byteLength(content)).toBeLessThanOrEqual(32 * 1024)
    const { text, $more } = JSON.parse(content)
    expect($more).toEqual({ handle: 'r1', shown: text.length, of: 300_000 })
    expect(text.isWellFormed()).toBe(true)
    expect(text.length).toBeGreaterThan(10_000)
  })

  it('an object of many keys, one huge item, and what nests deep', async () => {
    const keys = Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`key ${n}`, n]))
    const wide = JSON.parse(await contentOf(() => keys))
    expect(wide.$more).toMatchObject({ handle: 'r1', of: 9000 })
    const [huge] = JSON.parse(await contentOf(() => [{ id: 7, words: 'x'.repeat(90_000) }]))
    expect(huge).toMatchObject({ id: 7, words: { $more: { path: '/0/words', of: 90_000 } } })
    let deep: unknown = 'x'.repeat(40_000)
    for (let level = 0; level < 500; level++) deep = { deep }
    expect(JSON.parse(await contentOf(() => deep))).toBeTypeOf('object')
    const long = { ['k'.repeat(50_000)]: 1, ['"'.repeat(50_000)]: ['x'] }
    expect(JSON.parse(await contentOf(() => long))).toMatchObject({ $more: { shown: 0, of: 2 } })
  })

  it('what is too large to be kept says how much there was, without a handle', async () => {
    const { $more } = JSON.parse(await contentOf(() => 'x'.repeat(9 * 1024 * 1024)))
    expect($more).toMatchObject({ of: 9 * 1024 * 1024 })
    expect($more.handle).toBeUndefined()
  })

  it('a tool may say how much of it is read at once', async () => {
    const some = rows.slice(0, 40)
    expect(JSON.parse(await contentOf(() => some, { maxResultBytes: 256 * 1024 }))).toEqual(some)
    const little = await contentOf(() => some, { maxResultBytes: 2048 })
    expect(Buffer.byteLength(little)).toBeLessThanOrEqual(2048)
    for (const maxResultBytes of [0, 262_145, 1.5, '32k'])
      await expect(
        testApp({ plugins: [kit({ work: { ...read, maxResultBytes, run: () => 1 } })] }),
      ).rejects.toThrow('the tool "work" has a "maxResultBytes" of')
  })
})

describe('read_result', () => {
  it('is there once a handle is, and pages to the last item', async () => {
    const pages: any[] = []
    const model = pager(pages)
    await using app = await testApp({ plugins: [whole], model, env: { TURN_MAX_CALLS: '100' } })
    const said = await (await app.user()).say('List')
    expect(said.text).toBe('All read.')
    const offered = model.requests.map(({ tools }) =>
      tools.some(({ name }) => name === 'read_result'),
    )
    const read = model.requests.flatMap(({ messages }) => messages).map(({ content }) => content)
    for (const content of read)
      expect(Buffer.byteLength(unquote(content))).toBeLessThanOrEqual(32 * 1024)
    expect(offered[0]).toBe(false)
    expect(offered.slice(1).every(Boolean)).toBe(true)
    const items = [...pages[0].slice(0, -1), ...pages.slice(1).flatMap((page) => page.items)]
    expect(items).toEqual(rows)
  })

  it('reads a path, searches, and says what is wrong with what it was given', async () => {
    const asks = [
      { handle: 'r1', path: '/rows/1125' },
      { handle: 'r1', path: '/rows', search: '1125 1125', from: 3 },
      { handle: 'r1', path: '/rows', from: 1125 },
      { handle: 'r1', path: '/notes', from: 99_990 },
      { handle: 'r1', path: '/notes', search: 'needle' },
      { handle: 'r1', path: '/nothing' },
      { handle: 'r9' },
      { handle: 'r1', from: -1 },
    ]
    const notes = `${'x'.repeat(50_000)}needle${'y'.repeat(49_994)}`
    const plugin = kit({ list: { ...read, run: () => ({ rows, notes }) } })
    const calls = asks.map((args) => ({ name: 'read_result', args }))
    const model = modelScript([{ calls: [{ name: 'list' }] }, { calls }, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    const results = model.requests[2]!.messages.slice(-8).map(({ content }) => JSON.parse(content))
    expect(results[0].keys).toEqual(rows[1125])
    expect(results[1]).toMatchObject({ found: [{ at: 1125, item: rows[1125] }], of: 1126 })
    expect(results[2]).toEqual({ items: [rows[1125]], from: 1125, of: 1126 })
    expect(results[3]).toEqual({ text: 'y'.repeat(10), from: 99_990, of: 100_000 })
    expect(results[4].found).toMatchObject([{ at: 50_000 }])
    expect(results.slice(5).map(({ code }) => code)).toEqual([
      'NOT_FOUND',
      'NOT_FOUND',
      'INVALID_INPUT',
    ])
  })

  it('hands on other people’s words as theirs', async () => {
    const plugin = kit({ list: { ...read, foreign: true, run: () => rows } })
    const read_on = { calls: [{ name: 'read_result', args: { handle: 'r1', from: 1000 } }] }
    const model = modelScript([{ calls: [{ name: 'list' }] }, read_on, 'Well.'])
    await using engine = await testEngine({ plugins: [plugin], model })
    await engine.turn('Go')
    const results = (await engine.transcript()).filter(({ role }) => role === 'tool')
    expect(results).toMatchObject([{ foreign: { plugin: 'kit' } }, { foreign: { plugin: 'kit' } }])
  })

  it('does not read what a session of another user has', async () => {
    const read_on: Answer = { calls: [{ name: 'read_result', args: { handle: 'r1' } }] }
    const model = modelScript([{ calls: [{ name: 'list' }] }, 'Well.', read_on, 'Well.'])
    await using engine = await testEngine({ plugins: [whole], model })
    await engine.turn('List')
    await engine.turn('Read', { session: 'session-2', user: anybody('did:key:z6MkBaraka') })
    expect(newest(model.requests[3]!.messages)).toMatchObject({ code: 'NOT_FOUND' })
  })
})

await onEachDatabase('the rest of a large result', ({ databaseUrl }) => {
  it('is read after a takeover and in a later turn, and goes with the events of its run', async () => {
    const store = await withTables(await openStore({ databaseUrl, log: silent }))
    try {
      const ask: Answer = { calls: [{ name: 'read_result', args: { handle: 'r1', from: 1125 } }] }
      const first = modelScript([{ calls: [{ name: 'list' }] }, { then: 'hangs' }])
      await using engine = await testEngine({ plugins: [whole], model: first, store })
      const run = await engine.begin('List', { afterStep: () => undefined })
      const isKept = async () =>
        (await engine.entries()).some(({ messages }) =>
          messages.some(({ role }) => role === 'tool'),
        )
      await expect.poll(isKept).toBe(true)
      run.die()
      expect((await run.ended).status).toBe('lost')
      const second = modelScript([ask, 'Read.', ask, 'Read again.'])
      await using other = await testEngine({ plugins: [whole], model: second, store })
      expect((await other.carryOn(run)).end.status).toBe('finished')
      expect(newest(second.requests[1]!.messages).items).toEqual([rows[1125]])
      await other.turn('Again')
      expect(second.requests[2]!.tools.map(({ name }) => name)).toContain('read_result')
      expect(newest(second.requests[3]!.messages).items).toEqual([rows[1125]])

      const db = withRunTables(store.db)
      const kept = () => db.selectFrom('kernel_results').select('handle').execute()
      expect(await kept()).toEqual([{ handle: 'r1' }])
      await db.updateTable('kernel_runs').set({ ended_at: 1 }).execute()
      await purgeRuns(new RunStore({ store, owner: 'test', leaseMs: 1000 }), 1)
      expect(await kept()).toEqual([])
    } finally {
      await store.close()
    }
  })
})
