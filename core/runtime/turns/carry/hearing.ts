import { sql } from 'kysely'
import type { Log } from '../../../plugin.ts'
import type { Clients } from '../clients/clients.ts'
import type { Followers } from '../events/followers.ts'
import type { Watchers } from '../events/watchers.ts'
import { type RunStore, slices } from '../journal/store.ts'
import type { WaitingTurns } from '../waiting/waiting-turns.ts'
import type { Carrier } from './carrier.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { Hearing, Replicas } from './replicas.ts'

/** How far back a process looks that has heard nothing for a time; a connection is back sooner. */
const lookBackMs = 60_000

/** Who in this process acts on what other replicas tell. */
export interface Hearers {
  readonly carrier: Carrier
  readonly keeper: LeaseKeeper
  readonly followers: Followers
  readonly clients: Clients
  readonly watchers: Watchers
  readonly waiting: WaitingTurns
  readonly replicas: Replicas
  readonly store: RunStore
  readonly log: Log
  onRedacted?(sessionId: string): void
}

/** What this process does at each word of another replica. */
export function hearingOf(hearers: Hearers): Hearing {
  const { carrier, keeper, followers, watchers, replicas, waiting } = hearers
  const { answers, audience, approvers } = hearers.clients
  const first =
    (act: (id: string, second: string) => void) =>
    ([id = '', second = '']: readonly string[]) =>
      act(id, second)
  return {
    events: (runIds) => {
      for (const runId of runIds) followers.wake(runId)
    },
    ended: ([sessionId = '', runId = '', requestId = '', status]) => {
      carrier.nudge()
      if (status === 'aborted' || status === 'interrupted')
        watchers.closed(sessionId, { runId, requestId, status })
    },
    began: first((runId, sessionId) => {
      if (!carrier.live.has(runId)) watchers.began(sessionId, runId)
      waiting.began(runId)
    }),
    aborted: first((runId) => carrier.live.get(runId)?.stop('aborted')),
    superseded: first((runId) => carrier.live.get(runId)?.stop('superseded')),
    answered: first((runId) => inBackground(answers.arrived(runId), hearers)),
    wanted: first((runId, sessionId) => {
      if (audience.has(runId) || audience.has(sessionId)) replicas.tell(sessionId, 'here', runId)
    }),
    here: first((runId) => audience.arrived(runId)),
    asks: first((sessionId) => {
      if (approvers.hasHere(sessionId)) replicas.tell(sessionId, 'shows', sessionId)
    }),
    shows: first((sessionId) => approvers.arrived(sessionId)),
    free: () => {
      void keeper.sweep()
      void waiting.poll()
    },
    deleted: first((sessionId) => {
      for (const run of carrier.ofSession(sessionId)) run.feed.lose('its session was deleted')
      watchers.deleted(sessionId)
      waiting.deleted(sessionId)
    }),
    redacted: first((sessionId) => hearers.onRedacted?.(sessionId)),
    cut: ([sessionId = '', runId = '', requestId = '', chars, messageId]) =>
      watchers.cut(sessionId, {
        ...{ runId, requestId, chars: Number(chars) },
        ...(messageId && { messageId }),
      }),
    settles: first((runId) => carrier.live.get(runId)?.stopAfterWrites()),
    left: first((id) => waiting.left(id)),
    follows: first((runId) => carrier.live.get(runId)?.feed.follow()),
  }
}

/** Looks up in the database what other replicas told while the connection was broken. */
export function lookUpMissed(hearers: Hearers): void {
  const { carrier, keeper, followers, clients, waiting } = hearers
  followers.wakeAll()
  carrier.nudge()
  void keeper.sweep()
  void waiting.poll()
  void keeper.beat()
  inBackground(lookUpBeginnings(hearers), hearers)
  inBackground(clients.answers.look(), hearers)
}

/** How many of a session's newest runs are looked at: sockets know no more that have ended. */
const newestRuns = 4

/** Tells sockets of the runs that began in their sessions while nothing was heard, those that have ended included. */
async function lookUpBeginnings({ watchers, store }: Hearers): Promise<void> {
  const { watched } = watchers
  for (const ids of slices([...watched.keys()])) {
    const rows = await store.db
      .selectFrom('kernel_runs')
      .select(['id', 'session_id', sql<number>`${store.now} - created_at`.as('age')])
      .where('session_id', 'in', ids)
      .where('created_at', '>', sql<number>`${store.now} - ${sql.lit(lookBackMs)}`)
      .orderBy('created_at', 'desc')
      .limit(ids.length * newestRuns)
      .execute()
    for (const { id, session_id: sessionId, age } of rows.reverse())
      if (Number(age) < (watched.get(sessionId) ?? 0)) watchers.began(sessionId, id)
  }
}

function inBackground(work: Promise<void>, { log }: Hearers): void {
  work.catch((error: unknown) =>
    log.warn({ err: error }, 'The database could not be asked; trying again'),
  )
}
