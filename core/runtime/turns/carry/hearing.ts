import type { Log } from '../../../plugin.ts'
import type { Followers } from '../events/followers.ts'
import type { Watchers } from '../events/watchers.ts'
import type { Approvers } from './approvers.ts'
import type { Audience } from './audience.ts'
import type { Carrier } from './carrier.ts'
import type { ClientAnswers } from './client-answers.ts'
import type { LeaseKeeper } from './lease-keeper.ts'
import type { Hearing, Replicas } from './replicas.ts'

/** Who in this process acts on what other replicas tell. */
export interface Hearers {
  readonly carrier: Carrier
  readonly keeper: LeaseKeeper
  readonly followers: Followers
  readonly answers: ClientAnswers
  readonly audience: Audience
  readonly approvers: Approvers
  readonly watchers: Watchers
  readonly replicas: Replicas
  readonly log: Log
}

/** What this process does at each word of another replica. */
export function hearingOf(hearers: Hearers): Hearing {
  const { carrier, keeper, followers, answers, audience, approvers, watchers, replicas } = hearers
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
    free: () => void keeper.sweep(),
    deleted: first((sessionId) => {
      for (const run of carrier.ofSession(sessionId)) run.feed.lose('its session was deleted')
      watchers.deleted(sessionId)
    }),
  }
}

/** Looks up in the database what other replicas told while the connection was broken. */
export function lookUpMissed(hearers: Hearers): void {
  const { carrier, keeper, followers, answers } = hearers
  followers.wakeAll()
  carrier.nudge()
  void keeper.sweep()
  inBackground(answers.look(), hearers)
}

function inBackground(work: Promise<void>, { log }: Hearers): void {
  work.catch((error: unknown) =>
    log.warn({ err: error }, 'The database could not be asked; trying again'),
  )
}
