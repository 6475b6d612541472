import type { Log } from '../../../plugin.ts'
import type { Clients } from '../clients/clients.ts'
import type { Followers } from '../events/followers.ts'
import type { Watchers } from '../events/watchers.ts'
import type { WaitingTurns } from '../waiting/waiting-turns.ts'
import type { Carrier } from './carrier.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { Hearing, Replicas } from './replicas.ts'

/** Who in this process acts on what other replicas tell. */
export interface Hearers {
  readonly carrier: Carrier
  readonly keeper: LeaseKeeper
  readonly followers: Followers
  readonly clients: Clients
  readonly watchers: Watchers
  readonly waiting: WaitingTurns
  readonly replicas: Replicas
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
    ended: () => carrier.nudge(),
    began: first((runId, sessionId) => {
      if (!carrier.live.has(runId)) watchers.began(sessionId, runId)
      waiting.began(runId)
    }),
    aborted: first((runId) => carrier.live.get(runId)?.stop('aborted')),
    superseded: first((runId) => carrier.live.get(runId)?.stop('superseded')),
    answered: first((runId) => inBackground(answers.arrived(runId), hearers)),
    wanted: first((runId, sessionId) => {
      if (audience.has(runId) || audience.has(sessionId)) replicas.tell('here', runId)
    }),
    here: first((runId) => audience.arrived(runId)),
    asks: first((sessionId) => {
      if (approvers.hasHere(sessionId)) replicas.tell('shows', sessionId)
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
    left: first((id) => waiting.left(id)),
  }
}

/** Looks up in the database what other replicas told while the connection was broken. */
export function lookUpMissed(hearers: Hearers): void {
  const { carrier, keeper, followers, clients, waiting } = hearers
  followers.wakeAll()
  carrier.nudge()
  void keeper.sweep()
  void waiting.poll()
  inBackground(clients.answers.look(), hearers)
}

function inBackground(work: Promise<void>, { log }: Hearers): void {
  work.catch((error: unknown) =>
    log.warn({ err: error }, 'The database could not be asked; trying again'),
  )
}
