import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AIMessage } from '@langchain/core/messages'
import {
  Annotation,
  Command,
  END,
  interrupt,
  START,
  StateGraph,
  type BaseCheckpointSaver,
} from '@langchain/langgraph'
import { emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint'
import { sql } from 'kysely'
import * as vitest from 'vitest'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { checkpointMigrations } from '../../core/runtime/agent/state/checkpoint-tables.ts'
import { Checkpointer, requireThread } from '../../core/runtime/agent/state/checkpointer.ts'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import { freshDatabase } from '../support/database.ts'
import { describeWith } from '../support/services.ts'
import { silent } from '../support/silent-log.ts'

// The validation suite is written for a vitest whose functions are globals.
Object.assign(globalThis, vitest)
const { validate, deltaChannelHistoryTests } =
  await import('@langchain/langgraph-checkpoint-validation')

const tables = ['checkpoints', 'checkpoint_values', 'checkpoint_writes']

describe('on SQLite', () => {
  behaviour(() => openStore({ log: silent }))

  it('what waits for a person goes on after a restart', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'checkpoints-'))
    const config = { configurable: { thread_id: 't' }, durability: 'exit' as const }
    const boot = async () => {
      const dataDir = await openDataDir(folder)
      const store = await openStore({ dataDir, log: silent })
      await store.migrate('checkpoints', checkpointMigrations)
      return { graph: asking(new Checkpointer(store.db)), shutDown: () => store.close() }
    }
    const before = await boot()
    await before.graph.invoke({ said: ['book it'] }, config)
    await before.shutDown()

    const after = await boot()
    const waiting = await after.graph.getState(config)
    expect(waiting.tasks[0]?.interrupts[0]?.value).toEqual({ ask: 'Really?' })
    const { said } = await after.graph.invoke(new Command({ resume: 'yes' }), config)
    expect(said).toEqual(['book it', 'the person said yes'])
    await after.shutDown()
    await rm(folder, { recursive: true })
  })
})

await describeWith('postgres', 'on PostgreSQL', (url) => {
  let database: Awaited<ReturnType<typeof freshDatabase>>
  beforeAll(async () => {
    database = await freshDatabase(url)
  })
  afterAll(() => database.drop())
  behaviour(() => openStore({ databaseUrl: database.url, log: silent }))
})

function behaviour(open: () => Promise<Store>) {
  let store: Store
  beforeAll(async () => {
    store = await open()
    await store.migrate('checkpoints', checkpointMigrations)
  })
  afterAll(() => store.close())

  const suite = {
    checkpointerName: 'Checkpointer',
    async createCheckpointer() {
      for (const table of tables) await sql`delete from ${sql.table(table)}`.execute(store.db)
      return new Checkpointer(store.db)
    },
  }
  describe("passes every case of LangGraph's validation", () => {
    validate(suite)
    deltaChannelHistoryTests(suite)
  })

  describe('beyond the validation', () => {
    let saver: Checkpointer
    beforeEach(async () => {
      saver = await suite.createCheckpointer()
    })

    const rows = async (table: string) =>
      (await sql<{ value: string }>`select * from ${sql.table(table)}`.execute(store.db)).rows
    const at = (thread_id: string, checkpoint_ns = '') => ({
      configurable: { thread_id, checkpoint_ns },
    })
    const meta = { source: 'loop' as const, step: 0, parents: {} }
    const holding = (values: Record<string, unknown>) => ({
      ...emptyCheckpoint(),
      id: uuid6(0),
      channel_values: values,
      channel_versions: Object.fromEntries(Object.keys(values).map((key) => [key, 1])),
    })
    const roundTrip = async (values: Record<string, unknown>) => {
      const checkpoint = holding(values)
      await saver.put(at('t'), checkpoint, meta, checkpoint.channel_versions)
      return (await saver.getTuple(at('t')))?.checkpoint.channel_values
    }

    it('two runs that go on from one checkpoint each keep what they did', async () => {
      const graph = echo(saver)
      const config = { ...at('t'), durability: 'exit' as const }
      await graph.invoke({ said: ['one'] }, config)
      const head = await saver.getTuple(config)
      const fork = () => ({ ...config, configurable: { ...head?.config.configurable } })
      const old = await graph.invoke({ said: ['old owner'] }, fork())
      const taken = await graph.invoke({ said: ['new owner'] }, fork())
      expect(old.said).toEqual(['one', 'echo one', 'old owner', 'echo old owner'])
      expect(taken.said).toEqual(['one', 'echo one', 'new owner', 'echo new owner'])
      expect((await graph.getState(config)).values.said).toEqual(taken.said)
    })

    it('plain state lies in the database as plain JSON', async () => {
      const message = { role: 'user', id: 'u1', content: 'Hello\u0000 \ud800 "there" 🎉' }
      expect(await roundTrip({ messages: [message] })).toEqual({ messages: [message] })
      expect((await rows('checkpoint_values'))[0]?.value).toBe(JSON.stringify([message]))
    })

    it('state that is more than plain comes back as what it was', async () => {
      const values = {
        map: new Map([['a', new Set([1])]]),
        bytes: new Uint8Array([0, 255, 10]),
        list: [1, undefined, 3],
        nothing: undefined,
        message: new AIMessage({ content: 'Hi', id: 'm1' }),
      }
      const back = await roundTrip(values)
      expect(back).toMatchObject({ map: values.map, list: values.list, nothing: undefined })
      expect([...(back?.bytes as Uint8Array)]).toEqual([0, 255, 10])
      expect(back?.message).toBeInstanceOf(AIMessage)
    })

    it('keys of prototypes are keys like any other', async () => {
      const trap = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}')
      const values = Object.fromEntries([
        ['__proto__', trap],
        ['mixed', [trap, new Map([['a', trap]])]],
      ])
      for (const thread of ['__proto__', 'constructor', 'prototype']) {
        const checkpoint = holding(values)
        const versions = Object.fromEntries([
          ['__proto__', 1],
          ['mixed', 1],
        ])
        await saver.put(at(thread), { ...checkpoint, channel_versions: versions }, meta, versions)
        const found = await saver.getTuple(at(thread))
        expect(Object.keys(found?.checkpoint.channel_values ?? {}).sort()).toEqual([
          '__proto__',
          'mixed',
        ])
        expect(JSON.stringify(found?.checkpoint.channel_values['__proto__'])).toBe(
          JSON.stringify(trap),
        )
      }
      expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
    })

    it('a value is stored once, however many checkpoints name its version', async () => {
      let config = at('t')
      for (let step = 0; step < 5; step++) {
        const changed = { count: step + 1 }
        const checkpoint = {
          ...holding({ big: 'x'.repeat(1000), count: step }),
          channel_versions: { big: 1, ...changed },
        }
        const next = await saver.put(
          config,
          checkpoint,
          meta,
          step === 0 ? { big: 1, count: 1 } : changed,
        )
        config = next as typeof config
      }
      expect(await rows('checkpoints')).toHaveLength(5)
      expect(await rows('checkpoint_values')).toHaveLength(6)
      const found = await saver.getTuple(at('t'))
      expect(found?.checkpoint.channel_values).toEqual({ big: 'x'.repeat(1000), count: 4 })
    })

    it('a later interrupt takes the place of an earlier one; other writes stay the first', async () => {
      const config = await saver.put(at('t'), holding({}), meta, {})
      await Promise.all([
        saver.putWrites(
          config,
          [
            ['a', 1],
            ['b', 2],
          ],
          'task',
        ),
        saver.putWrites(config, [['a', 'again']], 'task'),
        saver.putWrites(config, [['__interrupt__', 'first']], 'task'),
        saver.putWrites(config, [['__interrupt__', 'second']], 'task'),
      ])
      await saver.putWrites(config, [['a', 'still']], 'task')
      await saver.putWrites(config, [['__interrupt__', 'third']], 'task')
      const writes = (await saver.getTuple(at('t')))?.pendingWrites
      expect(writes).toEqual([
        ['task', '__interrupt__', 'third'],
        ['task', 'a', 1],
        ['task', 'b', 2],
      ])
    })

    it('many threads at once keep to themselves', async () => {
      const graph = echo(saver)
      const names = Array.from({ length: 60 }, (_, n) => `thread ${n}`)
      for (const durability of ['exit', 'async', 'sync'] as const) {
        await Promise.all(
          names.map((name) => graph.invoke({ said: [name] }, { ...at(name), durability })),
        )
      }
      for (const name of names) {
        const { said } = (await graph.getState(at(name))).values
        expect(said).toEqual([name, `echo ${name}`, name, `echo ${name}`, name, `echo ${name}`])
      }
    })

    it('the list goes newest first, over pages, and a limit of none is none', async () => {
      for (let n = 0; n < 230; n++)
        await saver.put(at('t', n % 2 ? 'child' : ''), holding({}), { ...meta, step: n }, {})
      const steps = async (...[config, options]: Parameters<Checkpointer['list']>) => {
        const found: (number | undefined)[] = []
        for await (const tuple of saver.list(config, options)) found.push(tuple.metadata?.step)
        return found
      }
      const all = Array.from({ length: 230 }, (_, n) => 229 - n)
      expect(await steps({ configurable: { thread_id: 't' } })).toEqual(all)
      expect(await steps(at('t', 'child'))).toEqual(all.filter((n) => n % 2))
      expect(await steps({}, { filter: { step: 3 } })).toEqual([3])
      expect(await steps({}, { limit: 150 })).toEqual(all.slice(0, 150))
      expect(await steps({}, { limit: 0 })).toEqual([])
    })

    it('a deleted thread leaves nothing behind, in no namespace and in no table', async () => {
      for (const thread of ['gone', 'stays']) {
        for (const namespace of ['', 'child']) {
          const checkpoint = holding({ a: 1 })
          const config = await saver.put(
            at(thread, namespace),
            checkpoint,
            meta,
            checkpoint.channel_versions,
          )
          await saver.putWrites(config, [['a', 1]], 'task')
        }
      }
      await saver.deleteThread('gone')
      for (const table of tables) {
        const threads = (await rows(table)).map((row) => Reflect.get(row, 'thread_id'))
        expect(new Set(threads)).toEqual(new Set(['stays']))
      }
    })

    it.each([undefined, null, '', 7, 'a\0b', {}])('the thread id %j is refused', async (id) => {
      const config = { configurable: { thread_id: id } }
      const named = { code: 'INTERNAL', message: expect.stringContaining('thread_id') }
      await expect(saver.put(config, emptyCheckpoint(), meta, {})).rejects.toMatchObject(named)
      await expect(saver.putWrites(config, [['a', 1]], 'task')).rejects.toMatchObject(named)
      await expect(saver.deleteThread(id as string)).rejects.toMatchObject(named)
      expect(() => requireThread(id)).toThrow('thread_id')
    })

    it('a graph that is started without a thread fails, and the process goes on', async () => {
      const graph = echo(saver)
      for (const durability of ['exit', 'async', 'sync'] as const)
        await expect(graph.invoke({ said: ['x'] }, { durability })).rejects.toThrow('thread_id')
    })
  })
}

const State = Annotation.Root({
  said: Annotation<string[]>({ reducer: (old, more) => [...old, ...more], default: () => [] }),
})

function echo(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode('echo', ({ said }) => ({ said: [`echo ${said.at(-1)}`] }))
    .addEdge(START, 'echo')
    .addEdge('echo', END)
    .compile({ checkpointer })
}

function asking(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(State)
    .addNode('ask', () => ({ said: [`the person said ${interrupt({ ask: 'Really?' })}`] }))
    .addEdge(START, 'ask')
    .addEdge('ask', END)
    .compile({ checkpointer })
}
