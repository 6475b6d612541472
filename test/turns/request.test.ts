import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { RuntimeError } from '#core'
import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { withRunTables } from '../../core/runtime/turns/journal/tables.ts'
import type { Engine, Run, TurnRequest } from '../../core/runtime/turns/run.ts'
import { onEachDatabase, type Where } from '../support/each-database.ts'
import { say, stopped } from '../support/fake-engines.ts'
import { type Replica, replica } from '../support/replica.ts'

const body = {
  message: 'Pay 5 to "Anna"\n— today',
  attachments: [{ name: 'bill.pdf', url: 'https://example.org/bill.pdf' }, 'a note'],
  timezone: 'Africa/Lusaka',
  metadata: { from: 'the till' },
  approvals: true,
  tools: [{ name: 'locate', description: 'Where I am.', schema: { type: 'object' } }],
}
const request: TurnRequest = body

/** Servers that come one after the other to the same database, on SQLite to the same folder. */
async function worldOf({ databaseUrl }: Where) {
  const folder = mkdtempSync(join(tmpdir(), 'request-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return async (engine: Engine) =>
    replica({
      engine,
      ...(databaseUrl ? { databaseUrl } : { dataDir: await openDataDir(join(folder, 'data')) }),
    })
}

/** An engine that a test waits for: the run that was handed to it, and what became of the run. A fake of the engine. */
function handedTo(engine: Engine) {
  const handed = Promise.withResolvers<Run>()
  return {
    run: handed.promise,
    engine: ((run) => {
      handed.resolve(run)
      return engine(run)
    }) satisfies Engine,
  }
}

/** Goes on until it is told to let go. */
const holding: Engine = async (run) => {
  await new Promise((resolve) => run.signal.addEventListener('abort', resolve, { once: true }))
  return stopped(run, '')
}
const finishing: Engine = async (run) => {
  await say(run, 'Done.')
  return { status: 'finished' }
}
const asking: Engine = async (run) => {
  const waits = { toolCallId: `pay-${run.runId}`, toolName: 'pay', args: {} }
  await run.journal.append({ messages: [], waits })
  return { status: 'waiting' }
}
const failing: Engine = async (run) => {
  run.emit('message', { content: 'I am on' })
  return { status: 'failed', error: new RuntimeError('INTERNAL', 'It broke.') }
}

const tablesOf = ({ store }: Replica) => withRunTables(store.db)

/** Stores the request of a run as versions before this one did: whole, with the words in its row. */
async function asBefore(server: Replica, runId: string, message: string): Promise<void> {
  await tablesOf(server)
    .updateTable('kernel_run_requests')
    .set({ request: JSON.stringify({ ...request, message }) })
    .where('run_id', '=', runId)
    .execute()
}

/** Says it, and resolves to the id of the run. */
async function begin(server: Replica): Promise<string> {
  const turn = await server.stream(`/messages/${await server.session()}`, body)
  expect(turn.status).toBe(200)
  return turn.headers.get('x-run-id') ?? ''
}

/** Says it, and reads what comes of it. */
async function toItsEnd(server: Replica) {
  const turn = await server.stream(`/messages/${await server.session()}`, body)
  const { status } = (await turn.rest()).at(-1)?.data ?? {}
  return { runId: turn.headers.get('x-run-id') ?? '', status }
}

await onEachDatabase('what a run was asked, with a fake engine', (where) => {
  test('is stored once: the words in the journal, the rest beside it', async () => {
    const start = await worldOf(where)
    const server = await start(finishing)
    const runId = await begin(server)
    const db = tablesOf(server)
    const { request: beside } = await db
      .selectFrom('kernel_run_requests')
      .select('request')
      .where('run_id', '=', runId)
      .executeTakeFirstOrThrow()
    const { message, attachments, ...rest } = body
    expect(JSON.parse(beside)).toEqual(rest)
    const [words] = await db
      .selectFrom('kernel_steps')
      .select('body')
      .where('run_id', '=', runId)
      .orderBy('position')
      .execute()
    expect(JSON.parse(words?.body ?? '')).toEqual({
      role: 'user',
      id: `user-${runId}`,
      content: message,
      attachments,
    })
  })

  describe.each([
    ['as it is stored now', undefined],
    ['as an older version stored it', 'The words of the older row'],
  ])('%s', (_, older) => {
    const expected = { ...request, ...(older !== undefined && { message: older }) }

    test('is what the process is handed that takes the run over', async () => {
      const start = await worldOf(where)
      const first = handedTo(holding)
      const one = await start(first.engine)
      const runId = await begin(one)
      expect((await first.run).request).toEqual(request)
      if (older !== undefined) await asBefore(one, runId, older)
      await one.close()
      const second = handedTo(finishing)
      await start(second.engine)
      const taken = await second.run
      expect(taken).toMatchObject({ runId, takenOver: true })
      expect(taken.request).toEqual(expected)
    })

    test('is what the run is handed that continues it, and whoever takes that one over', async () => {
      const start = await worldOf(where)
      const one = await start(asking)
      const { runId, status } = await toItsEnd(one)
      expect(status).toBe('waiting')
      if (older !== undefined) await asBefore(one, runId, older)
      await one.close()

      const second = handedTo(holding)
      const two = await start(second.engine)
      const resumed = await two.stream(`/runs/${runId}/resume`, { decision: 'approve' })
      expect(resumed.status).toBe(200)
      const continuing = await second.run
      expect(continuing.continues?.runId).toBe(runId)
      expect(continuing.request).toEqual(expected)
      await two.close()

      const third = handedTo(finishing)
      await start(third.engine)
      const taken = await third.run
      expect(taken).toMatchObject({ runId: continuing.runId, takenOver: true })
      expect(taken.request).toEqual(expected)
    })

    test('is what a quarantined run is tried again with', async () => {
      const start = await worldOf(where)
      const one = await start(failing)
      const { runId, status } = await toItsEnd(one)
      expect(status).toBe('failed')
      const db = tablesOf(one)
      const run = await db
        .selectFrom('kernel_runs')
        .selectAll()
        .where('id', '=', runId)
        .executeTakeFirstOrThrow()
      const { session_id, did, created_at: at, attempts, steps } = run
      await db
        .insertInto('kernel_quarantine')
        .values({ run_id: runId, session_id, did, at, attempts, steps, retried_as: null })
        .execute()
      if (older !== undefined) await asBefore(one, runId, older)
      await one.close()

      const second = handedTo(finishing)
      const two = await start(second.engine)
      const { runs } = await two.runs.quarantined(10, 0)
      const listed = runs.find((each) => each.runId === runId)
      expect(listed?.requestBytes).toBeGreaterThan(JSON.stringify(body).length)
      await two.runs.retry(runId)
      expect((await second.run).request).toEqual(expected)
    })
  })
})
