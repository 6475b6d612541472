import { sql } from 'kysely'
import type { RunStore } from '../journal/store.ts'
import { redactTurn, turnOfRequest } from './redact.ts'
import { untilEnded } from './until-ended.ts'

/** What takes words back. */
export interface RedactorOptions {
  readonly store: RunStore
  /** Stops a turn, also one that waits for its beginning. */
  abort(did: string, sessionId: string, requestId: string): Promise<boolean>
  /** Called when the words are gone: whoever remembers the conversation has to read it again. */
  onRedacted(sessionId: string): void
}

/** Takes the words of turns back: a turn that is under way is stopped first, because it would write more of them. */
export class Redactor {
  readonly #options: RedactorOptions

  constructor(options: RedactorOptions) {
    this.#options = options
  }

  /** Resolves to false where the user has no turn of this request in the session. */
  async redact(did: string, sessionId: string, requestId: string): Promise<boolean> {
    const { store, abort, onRedacted } = this.#options
    const asked = { did, sessionId, requestId }
    const isKnown = async () => (await turnOfRequest(store, asked)) ?? (await this.#waits(asked))
    if (!(await isKnown())) return false
    await untilEnded({
      // A turn that waits for its beginning is gone with its stop: nothing of it was written anywhere else.
      isOpen: async () => (await turnOfRequest(store, asked))?.isOpen ?? (await this.#waits(asked)),
      stop: async () => void (await abort(did, sessionId, requestId)),
      fault: 'The turn has not ended yet, so its words still stand.',
    })
    const turn = await turnOfRequest(store, asked)
    if (turn) {
      await redactTurn(store, { did, sessionId, rootId: turn.rootId })
      onRedacted(sessionId)
    }
    return true
  }

  async #waits({
    did,
    sessionId,
    requestId,
  }: {
    did: string
    sessionId: string
    requestId: string
  }) {
    const { rows } = await sql`select id from kernel_waiting_turns where did = ${did}
      and session_id = ${sessionId} and request_id = ${requestId}`.execute(this.#options.store.db)
    return rows.length > 0
  }
}
