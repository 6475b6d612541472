import { type Selectable, sql } from 'kysely'
import { type Telling, tellsAs } from '../../store/channels/channels.ts'
import { prepared } from '../../store/prepared.ts'
import type { RunStore } from '../journal/store.ts'
import type { SessionsTable } from '../journal/tables.ts'

/** A session that is to be. */
export interface NewSession {
  readonly id: string
  readonly did: string
  readonly plugin: string | null
}

/** The row of a session. */
export type SessionRow = Selectable<SessionsTable>

interface Waiting {
  readonly session: NewSession
  /** The tokens of the user of which it is not known yet whether one was revoked. */
  readonly cids: readonly string[]
  readonly settle: PromiseWithResolvers<SessionRow | undefined>
}

interface Options extends Pick<RunStore, 'db' | 'now'> {
  /** What the statement tells the user's pages; undefined where they are told otherwise. */
  telling(session: NewSession): Telling | undefined
  /** Tells them otherwise. */
  tell(session: NewSession): void
}

/** How many sessions one statement makes at most. */
const most = 100

/** How long a session waits at most for the statement of those before it. */
const patienceMs = 50

/**
 * Makes sessions by one statement of PostgreSQL for all that come while the one before is under way. It tells the users' pages of them,
 * and leaves out those of whose user a token was revoked.
 */
export class MadeAtOnce {
  readonly #options: Options
  readonly #insertAll: ReturnType<typeof insertion>
  readonly #insertProved: ReturnType<typeof insertion>
  #waiting = new Map<string, Waiting>()
  #underWay = 0
  #patience: NodeJS.Timeout | undefined

  constructor(options: Options) {
    this.#options = options
    this.#insertAll = insertion(options, false)
    this.#insertProved = insertion(options, true)
  }

  /** The row; undefined where there is a session of this id, or one of the tokens was revoked. */
  insert(session: NewSession, cids: readonly string[]): Promise<SessionRow | undefined> {
    // Two of one id cannot tell which of them was made.
    if (this.#waiting.has(session.id) || this.#waiting.size === most) this.#send()
    const settle = Promise.withResolvers<SessionRow | undefined>()
    this.#waiting.set(session.id, { session, cids, settle })
    if (this.#underWay === 0) this.#send()
    else if (this.#waiting.size === 1) this.#patience = setTimeout(this.#send, patienceMs)
    return settle.promise
  }

  readonly #send = (): void => {
    clearTimeout(this.#patience)
    if (this.#waiting.size === 0) return
    // Servers that make the same sessions at once wait for each other's rows: in one order, so that none waits for ever.
    const group = [...this.#waiting.values()].sort((a, b) => (a.session.id < b.session.id ? -1 : 1))
    this.#waiting = new Map()
    this.#underWay++
    void this.#make(group).finally(() => {
      this.#underWay--
      this.#send()
    })
  }

  async #make(group: readonly Waiting[]): Promise<void> {
    try {
      const made = await this.#insert(group)
      for (const { session, settle } of group) settle.resolve(made.get(session.id))
    } catch (error) {
      // One that is refused takes none of the others along. What fails for another reason, a database that is away or a statement that
      // took too long, would fail for each of them once more.
      if (group.length === 1 || !isRefusal(error))
        for (const { settle } of group) settle.reject(error)
      else for (const each of group) await this.#make([each])
    }
  }

  async #insert(group: readonly Waiting[]): Promise<Map<string, SessionRow>> {
    const { telling, tell } = this.#options
    const told = group.map(({ session }) => telling(session))
    const insert = group.some(({ cids }) => cids.length > 0) ? this.#insertProved : this.#insertAll
    const { rows } = await insert({
      ids: group.map(({ session }) => session.id),
      dids: group.map(({ session }) => session.did),
      plugins: group.map(({ session }) => session.plugin),
      cids: group.map(({ cids }) => cids.join(' ')),
      to: told.map((each) => each?.to ?? null),
      payloads: told.map((each) => each?.payload ?? null),
      told: told.map((each) => each?.told ?? null),
    })
    const made = new Map(rows.map((row) => [row.id, row]))
    for (const [nth, { session }] of group.entries())
      if (made.has(session.id) && !told[nth]) tell(session)
    return made
  }
}

/** Whether PostgreSQL refused a statement for what stands in it: its data (22), a constraint (23), a deadlock (40), a trigger (P0). */
const isRefusal = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && /^(22|23|40|P0)/.test(String(error.code))

type Texts = readonly (string | null)[]

interface Lists extends Record<'plugins' | 'to' | 'payloads' | 'told', Texts> {
  readonly ids: readonly string[]
  readonly dids: readonly string[]
  /** The tokens of each user, with spaces between them. */
  readonly cids: readonly string[]
}

const insertion = ({ db, now }: Pick<Options, 'db' | 'now'>, isProving: boolean) =>
  prepared(db, ({ ids, dids, plugins, cids, to, payloads, told }: Lists) => {
    const unlessRevoked = isProving
      ? sql`where not exists (select 1 from kernel_revocations r where r.cid = any (string_to_array(n.cids, ' ')))`
      : sql``
    const telling = tellsAs({ to: sql`t."to"`, payload: sql`t.payload`, told: sql`t.told` })
    return {
      compile: () =>
        sql<SessionRow>`with given as (
            select * from unnest(${ids}::text[], ${dids}::text[], ${plugins}::text[], ${cids}::text[],
              ${to}::text[], ${payloads}::text[], ${told}::text[])
              as n(id, did, plugin, cids, "to", payload, told)
          ), made as (
            insert into kernel_sessions (id, did, plugin, created_at, updated_at, turns)
            select n.id, n.did, n.plugin, at, at, 0 from (select ${now} as at) as moment, given n
            ${unlessRevoked} on conflict (id) do nothing returning *
          )
          select made.*, case when t."to" is not null then ${telling} end as told
          from made join given t on t.id = made.id`.compile(db),
    }
  })
