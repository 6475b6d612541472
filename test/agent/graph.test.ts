import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { createGraph, type Passage } from '../../core/runtime/agent/state/graph.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import type { StateKey } from '../../core/runtime/agent/state/state.ts'
import { z } from 'zod'
import { freshDatabase } from '../support/database.ts'
import { memoryStore, withTables } from '../support/engine.ts'
import { describeWith } from '../support/services.ts'

const key = (name: string): StateKey => ({
  record: { name: 'keeper' } as StateKey['record'],
  key: name,
  schema: z.any(),
  scope: 'thread',
  channel: `keeper.${name}`,
})

const suite = (open: () => Promise<Store>) => () => {
  /** A graph on a store of its own, and what its bodies were given. */
  async function graphWith() {
    const store = await open()
    const graph = createGraph(store.db, [key('count'), key('note')])
    const given: unknown[] = []
    const pass = async (
      result: Awaited<ReturnType<Passage['work']>>,
      more: Partial<Passage> = {},
    ) => {
      const { checkpoint, save } = await graph.pass({
        thread: 't',
        ...more,
        async work(kept, decided) {
          given.push({ ...kept, decided })
          return result
        },
      })
      if (save) await store.db.transaction().execute(save)
      return checkpoint
    }
    return { graph, pass, given, store }
  }
  const waits = { toolCallId: 'c1', toolName: 'pay', args: { amount: 5 } }

  it('gives a passage what the one before left, and adds to the loaded plugins', async () => {
    const { pass, given, graph, store } = await graphWith()
    await pass({ loadedPlugins: ['a'], states: { 'keeper.count': 1 } }, { begins: true })
    await pass({ loadedPlugins: ['b'], states: { 'keeper.note': { deep: [null] } } })
    const head = await pass({ states: {} })
    const kept = {
      loadedPlugins: ['a', 'b'],
      states: { 'keeper.count': 1, 'keeper.note': { deep: [null] } },
    }
    expect(given).toEqual([
      { loadedPlugins: [], states: {} },
      { loadedPlugins: ['a'], states: { 'keeper.count': 1 } },
      kept,
    ])
    expect(await graph.read('t', head)).toEqual(kept)
    expect(await graph.read('other', undefined)).toEqual({ loadedPlugins: [], states: {} })
    await store.close()
  })

  it('reads the checkpoint that it has written itself no more, and one of another process as it stands', async () => {
    const { pass, given, graph, store } = await graphWith()
    const asked: string[] = []
    const execute = store.db.executeQuery.bind(store.db)
    store.db.executeQuery = (query) => {
      asked.push('sql' in query ? query.sql : '')
      return execute(query)
    }
    const reads = () => asked.splice(0).filter((text) => !text.startsWith('insert'))
    let head = await pass({ loadedPlugins: ['a'], states: { 'keeper.count': 1 } }, { begins: true })
    head = await pass({ states: { 'keeper.note': 'n' } }, { checkpoint: head })
    head = await pass({ states: { 'keeper.count': 2 } }, { checkpoint: head })
    expect(reads()).toEqual([])
    const kept = { loadedPlugins: ['a'], states: { 'keeper.count': 2, 'keeper.note': 'n' } }
    const elsewhere = createGraph(store.db, [key('count'), key('note')])
    expect(await elsewhere.read('t', head)).toEqual(kept)
    const { checkpoint: there, save } = await elsewhere.pass({
      thread: 't',
      checkpoint: head,
      work: async () => ({ states: { 'keeper.count': 3 } }),
    })
    if (save) await store.db.transaction().execute(save)
    reads()
    await pass({ states: {} }, { checkpoint: there })
    expect(reads().length).toBeGreaterThan(0)
    expect(given.at(-1)).toMatchObject({ states: { 'keeper.count': 3, 'keeper.note': 'n' } })
    await pass({ states: {} }, { checkpoint: head })
    expect(given.at(-1)).toMatchObject(kept)
    await graph.forget('t')
    await pass({ states: {} }, { checkpoint: head })
    expect(given.at(-1)).toEqual({ loadedPlugins: [], states: {}, decided: undefined })
    await store.close()
  })

  it('writes nothing of a passage that has nothing to keep', async () => {
    const { pass, given, store } = await graphWith()
    expect(await pass(undefined)).toBeUndefined()
    expect(await pass({ loadedPlugins: ['a'], states: {} })).toBeTypeOf('string')
    expect(given[1]).toEqual({ loadedPlugins: [], states: {} })
    await store.close()
  })

  it('goes on from the head it is given, not from the checkpoint with the latest time', async () => {
    const { pass, given, store } = await graphWith()
    const head = await pass({ states: { 'keeper.count': 1 } })
    await pass({ states: { 'keeper.count': 2 } })
    await pass({ states: {} }, { checkpoint: head })
    expect(given[2]).toMatchObject({ states: { 'keeper.count': 1 } })
    await store.close()
  })

  it('stands at an approval and goes on with the decision, time and again, in any process', async () => {
    const { pass, given, graph, store } = await graphWith()
    let head = await pass({ loadedPlugins: ['a'], states: {}, waits })
    for (const decision of ['approve', 'reject'] as const) {
      head = await pass({ states: {}, waits }, { checkpoint: head, resume: { decision } })
      expect(given.at(-1)).toMatchObject({
        loadedPlugins: ['a'],
        decided: { waits, decision: { decision } },
      })
    }
    const restarted = createGraph(store.db, [key('count'), key('note')])
    let decided: unknown
    await restarted.pass({
      thread: 't',
      checkpoint: head,
      resume: { decision: 'edit', args: { amount: 1 } },
      async work(_, by) {
        decided = by
        return { states: {} }
      },
    })
    expect(decided).toEqual({ waits, decision: { decision: 'edit', args: { amount: 1 } } })
    expect(given).toHaveLength(3)
    expect(await graph.read('t', head)).toMatchObject({ loadedPlugins: ['a'] })
    await store.close()
  })

  it('takes the same decision twice when the process died over the first', async () => {
    const { pass, given, store } = await graphWith()
    const head = await pass({ states: {}, waits })
    const resume = { decision: 'approve' } as const
    expect(await pass(undefined, { checkpoint: head, resume })).toBeUndefined()
    expect(await pass({ states: {} }, { checkpoint: head, resume })).toBeTypeOf('string')
    expect(given.slice(1)).toMatchObject([{ decided: { waits } }, { decided: { waits } }])
    await store.close()
  })

  it('lets a new turn begin where nobody decided', async () => {
    const { pass, given, store } = await graphWith()
    const head = await pass({ loadedPlugins: ['a'], states: {}, waits })
    await pass({ states: { 'keeper.count': 1 } }, { checkpoint: head })
    expect(given[1]).toEqual({ loadedPlugins: ['a'], states: {}, decided: undefined })
    await store.close()
  })
}

describe('the graph on SQLite', suite(memoryStore))

await describeWith('postgres', 'the graph on PostgreSQL', (url) => {
  suite(async () => {
    const database = await freshDatabase(url)
    const quiet = { debug() {}, info() {}, warn() {}, error() {} }
    const store = await withTables(await openStore({ databaseUrl: database.url, log: quiet }))
    return {
      ...store,
      async close() {
        await store.close()
        await database.drop()
      },
    }
  })()
})

it('LangGraph is not imported with the kernel, only when the agent warms up', () => {
  const script = `
    import { registerHooks } from 'node:module'
    const heavy = []
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context)
      if (/@langchain/.test(found.url)) heavy.push(found.url)
      return found
    } })
    await import('./core/index.ts')
    await import('./core/runtime/agent/agent.ts')
    const before = heavy.length
    await import('./core/runtime/agent/state/graph.ts')
    console.log(JSON.stringify([before, heavy.length > before]))`
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', '--input-type=module-typescript', '-e', script],
    { encoding: 'utf8', cwd: new URL('../..', import.meta.url) },
  )
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual([0, true])
})
