import { sql } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import { deathsAtMost } from '../journal/deaths.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import { positionOf } from '../journal/steps.ts'
import type { TurnRequest } from '../run.ts'
import type { Intake, Started } from './intake.ts'
import type { Underway } from './underway.ts'

/** What the user reads in place of an answer at which the server died twice. */
export const quarantinedNotice =
  'This could not be answered: the server stopped twice while working on it. ' +
  'The message was set aside, and whoever runs this server can look into it.'

/** The error that readers get in the stream of a quarantined run. */
export const quarantined = new RuntimeError(
  'RUN_QUARANTINED',
  'The server stopped twice while working on this, so it is not tried again.',
  { hint: 'Ask in other words; the operator of the server can have it tried again.' },
)

/** Whether processes died with the run too often. A run that somebody has stopped meanwhile is closed and not quarantined. */
export const isPoisonous = ({ deaths, stop }: RunRow): boolean =>
  deaths >= deathsAtMost && stop === null

/** Notes the run for the operator. The next process notes it again when this one dies before the run is closed. */
export async function putIntoQuarantine(store: RunStore, run: RunRow): Promise<void> {
  await store.commits.single((db) =>
    db
      .insertInto('kernel_quarantine')
      .values({
        run_id: run.id,
        session_id: run.session_id,
        did: run.did,
        at: store.now,
        attempts: run.attempts,
        steps: run.steps,
        retried_as: null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .execute(),
  )
}

/** A quarantined run as the operator sees it: nothing of what the user said. */
export interface QuarantinedRun {
  readonly runId: string
  readonly sessionId: string
  readonly did: string
  readonly createdAt: string
  readonly quarantinedAt: string
  readonly attempts: number
  /** The size of the request as the database keeps it, its words included, in bytes. */
  readonly requestBytes: number
  /** The last step of the run in the journal. */
  readonly lastStep?: { readonly kind: string; readonly tool?: string; readonly at: string }
}

/** The quarantined runs, the newest first. A run leaves the list when its message is tried again or its events are purged. */
export async function listQuarantined(
  store: RunStore,
  limit: number,
  offset: number,
): Promise<{ runs: QuarantinedRun[]; total: number }> {
  const kept = store.db.selectFrom('kernel_quarantine').where('retried_as', 'is', null)
  const { total } = await kept
    .select((eb) => eb.fn.countAll<number>().as('total'))
    .executeTakeFirstOrThrow()
  const rows = await kept
    .innerJoin('kernel_runs as run', 'run.id', 'kernel_quarantine.run_id')
    .leftJoin('kernel_run_requests as asked', 'asked.run_id', 'run.root_id')
    .leftJoin('kernel_steps as words', (join) =>
      join
        .onRef('words.session_id', '=', 'run.session_id')
        .on('words.position', '=', sql<number>`run.root_turn * ${positionOf(1, 0)}`)
        .on('words.kind', 'in', ['user', 'plugin']),
    )
    .leftJoin('kernel_steps as last', (join) =>
      join
        .onRef('last.session_id', '=', 'run.session_id')
        .on(
          'last.position',
          '=',
          sql<number>`run.turn * ${positionOf(1, 0)} + kernel_quarantine.steps - 1`,
        ),
    )
    .select([
      'run.id',
      'run.session_id',
      'run.did',
      'run.created_at',
      'kernel_quarantine.at',
      'kernel_quarantine.attempts',
      'last.kind',
      'last.body',
      'last.created_at as last_at',
      sql<
        number | null
      >`coalesce(octet_length(asked.request), 0) + coalesce(octet_length(words.body), 0)`.as(
        'bytes',
      ),
    ])
    .orderBy('kernel_quarantine.at', 'desc')
    .orderBy('run.id')
    .limit(limit)
    .offset(offset)
    .execute()
  const runs = rows.map(
    ({ id, session_id, did, created_at, at, attempts, kind, body, last_at, bytes }) => ({
      runId: id,
      sessionId: session_id,
      did,
      createdAt: iso(created_at),
      quarantinedAt: iso(at),
      attempts,
      requestBytes: Number(bytes ?? 0),
      ...(kind !== null &&
        body !== null &&
        last_at !== null && { lastStep: { kind, tool: toolOf(kind, body), at: iso(last_at) } }),
    }),
  )
  return { runs, total: Number(total) }
}

/** What the retry of a run needs. */
interface RetryParts {
  readonly store: RunStore
  readonly intake: Intake
  underway(sessionId: string): Promise<Underway>
}

/** Tries the message of a quarantined run again, as a new turn of its session. */
export async function retryQuarantined(
  { store, intake, underway }: RetryParts,
  runId: string,
): Promise<Started> {
  const { run, request } = await quarantinedMessage(store, runId)
  const { session_id: sessionId, did } = run
  const found = await underway(sessionId)
  const other = found.run ?? found.waiting
  if (other)
    throw new RuntimeError('CONFLICT', `Run "${other.runId}" is under way in that session.`, {
      hint: 'A new turn would end that run. Try again when the run has ended.',
    })
  const user = await intake.restoreUser(did)
  await intake.mayTalk(user)
  // The request is named after the run that it repeats, so that two operators at once begin one turn. No client can have
  // used the name before: the names that clients give are UUIDs.
  const requestId = `retry:${runId}`
  const started = await intake.begin(user, { did, sessionId, requestId, request })
  await noteRetry(store, runId, started.runId)
  if (!started.live) throw alreadyRetried(runId, started.runId)
  return started
}

/** The message of a quarantined run, for a new turn of its session. */
async function quarantinedMessage(
  store: RunStore,
  runId: string,
): Promise<{ readonly run: RunRow; readonly request: TurnRequest }> {
  const run = await store.find(runId)
  if (!run) throw new RuntimeError('NOT_FOUND', `There is no run "${runId}".`)
  const kept = await store.db
    .selectFrom('kernel_quarantine')
    .selectAll()
    .where('run_id', '=', runId)
    .executeTakeFirst()
  if (!kept || run.status !== 'failed')
    throw new RuntimeError('CONFLICT', `Run "${runId}" is not quarantined: it is ${run.status}.`, {
      hint: 'GET /runs?status=quarantined lists those that are.',
    })
  if (kept.retried_as !== null) throw alreadyRetried(runId, kept.retried_as)
  const request = await store.requestOf(run)
  if (request === undefined)
    throw new RuntimeError('GONE', `The message of run "${runId}" is not kept any more.`)
  return { run, request }
}

const alreadyRetried = (runId: string, as: string) =>
  new RuntimeError('CONFLICT', `Run "${runId}" was tried again already, as run "${as}".`)

async function noteRetry(store: RunStore, runId: string, as: string): Promise<void> {
  await store.commits.single((db) =>
    db
      .updateTable('kernel_quarantine')
      .set({ retried_as: as })
      .where('run_id', '=', runId)
      .execute(),
  )
}

const iso = (ms: number) => new Date(Number(ms)).toISOString()

/** The tool whose result the last step is: its name, and nothing of the result. */
function toolOf(kind: string, body: string): string | undefined {
  if (kind !== 'tool') return undefined
  const { name }: { name?: unknown } = JSON.parse(body) // written by the journal
  return typeof name === 'string' ? name : undefined
}
