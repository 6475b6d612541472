import type { Proof } from '../../http/routes/access.ts'
import type { Notices } from '../../notices/notices.ts'
import type { Hint } from '../../notices/words.ts'
import { prepared } from '../../store/prepared.ts'
import type { Commits, Durability } from '../journal/commits.ts'
import type { RunStore } from '../journal/store.ts'
import { MadeAtOnce, type NewSession, type SessionRow } from './made-at-once.ts'

type Using = Pick<RunStore, 'db' | 'dialect' | 'now'>

/** How a session is made. */
interface Manner {
  readonly durability?: Durability
  /** What is left to prove of the user, which the statement that inserts the session finds out. */
  readonly proof?: Proof | undefined
}

/** What the making of sessions needs. */
interface MakingParts extends Using {
  readonly commits: Commits
  readonly notices?: Notices
}

/** What the user's pages hear of a session. */
export const hintOf = (sessionId: string, change: 'made' | 'renamed'): Hint => ({
  event: 'session',
  data: { sessionId, change },
})

/**
 * Makes sessions without a room, and tells the user's pages of them. Those that come at once share a transaction on SQLite and a
 * statement on PostgreSQL, which also finds out whether a token of a user was revoked: then it does neither.
 */
export class Making {
  readonly #insert: (session: NewSession, manner: Manner) => Promise<SessionRow | undefined>

  constructor({ commits, notices, ...using }: MakingParts) {
    const tell = ({ id, did }: NewSession) => {
      const { event, data } = hintOf(id, 'made')
      notices?.tell(did, event, data)
    }
    if (using.dialect === 'postgres') {
      const telling = ({ id, did }: NewSession) => notices?.telling(did, [hintOf(id, 'made')])
      const atOnce = new MadeAtOnce({ ...using, tell, telling })
      this.#insert = (session, { proof }) => atOnce.insert(session, proof?.cids ?? [])
    } else {
      const insert = insertion(using)
      this.#insert = async (session, { durability }) => {
        const { rows } = await commits.single((on) => insert(session, on), durability)
        if (rows[0]) tell(session)
        return rows[0]
      }
    }
  }

  /** The row of the session; undefined where there is one of this id. In both cases the user is proved. */
  async make(session: NewSession, manner: Manner = {}): Promise<SessionRow | undefined> {
    const { durability, proof } = manner
    const row = await this.#insert(session, manner)
    if (row) proof?.given()
    if (row || !proof) return row
    await proof.demand()
    return this.make(session, { durability })
  }
}

const insertion = ({ db, now }: Using) =>
  prepared(db, ({ id, did, plugin }: NewSession) =>
    db
      .insertInto('kernel_sessions')
      .values({ id, did, plugin, created_at: now, updated_at: now, turns: 0 })
      .onConflict((conflict) => conflict.column('id').doNothing())
      .returningAll(),
  )
