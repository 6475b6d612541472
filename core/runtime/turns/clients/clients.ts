import type { RunStore } from '../journal/store.ts'
import { Approvers } from './approvers.ts'
import { Audience } from './audience.ts'
import { ClientAnswers } from './client-answers.ts'

/** The other replicas, as far as clients may be connected to them. */
interface OtherReplicas {
  readonly canBe: boolean
  tell(sessionId: string, word: 'wanted' | 'answered' | 'asks', ...ids: readonly string[]): void
}

/** The clients of sessions: who is there, at this replica or at another, and what the clients answer. */
export class Clients {
  readonly audience: Audience
  readonly approvers: Approvers
  readonly answers: ClientAnswers

  /** `absenceMs` is how long the client's own tools may be out of reach before a call of one fails. */
  constructor(store: RunStore, replicas: OtherReplicas, absenceMs?: number) {
    this.audience = new Audience(
      (runId, sessionId) => replicas.tell(sessionId, 'wanted', runId, sessionId),
      absenceMs,
    )
    this.approvers = new Approvers(
      replicas.canBe ? (sessionId) => replicas.tell(sessionId, 'asks', sessionId) : undefined,
    )
    this.answers = new ClientAnswers(
      store,
      (sessionId, runId) => replicas.tell(sessionId, 'answered', runId),
      this.audience,
    )
  }
}
