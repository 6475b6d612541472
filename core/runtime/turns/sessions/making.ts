import { type Selectable, sql } from 'kysely'
import type { Proof } from '../../http/routes/access.ts'
import type { Notices } from '../../notices/notices.ts'
import type { Hint } from '../../notices/words.ts'
import { tellsAs } from '../../store/channels/channels.ts'
import { prepared } from '../../store/prepared.ts'
import type { Commits, Durability } from '../journal/commits.ts'
import type { RunStore } from '../journal/store.ts'
import type { SessionsTable } from '../journal/tables.ts'

type Using = Pick<RunStore, 'db' | 'dialect' | 'now'>

/** A session that is to be. */
interface NewSession {
  readonly id: string
  readonly did: string
  readonly plugin: string | null
}

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
 * Makes sessions without a room, and tells the user's pages of them. On PostgreSQL one statement inserts the session, tells
 * of it, and finds out whether a token of the user was revoked: then it does neither.
 */
export class Making {
  readonly #commits: Commits
  readonly #notices: Notices | undefined
  readonly #insert: ReturnType<typeof insertion>
  readonly #insertProved: ReturnType<typeof insertion>

  constructor({ commits, notices, ...using }: MakingParts) {
    this.#commits = commits
    this.#notices = notices
    this.#insert = insertion(using, false)
    this.#insertProved = insertion(using, true)
  }

  /** The row of the session; undefined where there is one of this id. In both cases the user is proved. */
  async make(
    session: NewSession,
    { durability, proof }: Manner = {},
  ): Promise<Selectable<SessionsTable> | undefined> {
    const { did, id } = session
    const hint = hintOf(id, 'made')
    const telling = this.#notices?.telling(did, [hint]) ?? { to: null, payload: null, told: null }
    const values = { ...session, ...telling, cids: proof?.cids ?? [] }
    const insert = proof ? this.#insertProved : this.#insert
    const { rows } = await this.#commits.single((on) => insert(values, on), durability)
    const [row] = rows
    if (row) {
      proof?.given()
      if (telling.to === null) this.#notices?.tell(did, hint.event, hint.data)
      return row
    }
    if (!proof) return undefined
    await proof.demand()
    return this.make(session, { durability })
  }
}

const insertion = ({ db, dialect, now }: Using, isProving: boolean) =>
  prepared(
    db,
    (
      p: NewSession & {
        readonly cids: readonly string[]
        readonly to: string | null
        readonly payload: string | null
        readonly told: string | null
      },
    ) => {
      const { id, did, plugin } = p
      if (dialect === 'sqlite')
        return db
          .insertInto('kernel_sessions')
          .values({ id, did, plugin, created_at: now, updated_at: now, turns: 0 })
          .onConflict((conflict) => conflict.column('id').doNothing())
          .returningAll()
      const unlessRevoked = isProving
        ? sql`where not exists (select 1 from kernel_revocations where cid = any (${p.cids}::text[]))`
        : sql``
      return {
        compile: () =>
          sql<Selectable<SessionsTable>>`insert into kernel_sessions
            (id, did, plugin, created_at, updated_at, turns)
            select ${id}::text, ${did}::text, ${plugin}::text, at, at, 0 from (select ${now} as at) as moment
            ${unlessRevoked} on conflict (id) do nothing
            returning *, case when ${p.to}::text is null then null else ${tellsAs(p)} end as told`.compile(
            db,
          ),
      }
    },
  )
