import { sql } from 'kysely'
import { prepared } from '#core'
import type { MemoryDatabase, Mode } from '../tables.ts'
import { everything } from './erasing.ts'

/** How a turn may use memory, and of whom. */
export interface Standing {
  readonly mode: Mode | 'incognito'
  readonly owner: string
  /** Rises with every change of what is remembered of the owner. */
  readonly version: number
}

/** How things stand when a turn has ended. */
export interface StandingAtEnd {
  readonly mode: Mode | 'incognito'
  /** Whether the turn was shown memories of which nobody has noted yet that it used them. */
  readonly wasShown: boolean
  /** What the person has erased since the turn began. */
  readonly erased: 'all' | 'some' | undefined
  /** How many turns of the session have yet to be read. */
  readonly unread: number
}

/** Whose turn it is, in which session, and of whom memories are used there. */
export interface Asking {
  readonly did: string
  readonly sessionId: string
  readonly owner: string
}

/** By what the parts of one turn know each other. */
export interface TurnName {
  readonly did: string
  readonly sessionId: string
  readonly requestId: string
}

/** The parts of a turn that go by how things stood when it began, each once. */
type Part = 'prompt' | 'tools'

/** How long after its beginning a turn goes by what was read then; a turn that is resumed looks again. */
const freshMs = 1_000
/** How many turns are known that have just begun. */
const mostKnown = 1_000
/** How often the row of a person is looked at that somebody else held; who has it keeps it from then on. */
const mostLooks = 10

interface Known {
  readonly did: string
  readonly standing: Standing
  readonly at: number
  readonly left: Set<Part>
}

interface Row {
  readonly mode: Mode | null
  readonly version: number | null
  readonly incognito: number | null
}

/** How things stand for turns: each reads it once when it begins, and once when it ends. */
export class Standings {
  readonly #db: MemoryDatabase
  readonly #usual: Mode
  readonly #isPostgres: boolean
  readonly #now
  readonly #atEnd
  readonly #known = new Map<string, Known>()

  constructor(db: MemoryDatabase, usual: Mode, isPostgres: boolean) {
    this.#db = db
    this.#usual = usual
    this.#isPostgres = isPostgres
    this.#now = nowStatement(db)
    this.#atEnd = endStatement(db, isPostgres)
  }

  /** How things stand now. */
  async now({ did, sessionId, owner }: Asking, db = this.#db): Promise<Standing> {
    const [row] = (await this.#now({ did, session: sessionId, owner }, db)).rows
    const mode = owner === did ? (row?.mode ?? this.#usual) : 'on'
    return {
      mode: modeOf(row, mode),
      owner,
      version: Number(row?.version ?? 0),
    }
  }

  /** How things stand when a turn begins; what the turn asks about that next is answered by it. */
  async begins(trx: MemoryDatabase, name: TurnName): Promise<Standing> {
    const { did, sessionId } = name
    const standing = await this.now({ did, sessionId, owner: did }, trx)
    const key = keyOf(name)
    this.#known.delete(key)
    this.#known.set(key, { did, standing, at: performance.now(), left: new Set(parts) })
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= mostKnown) break
      this.#known.delete(oldest)
    }
    return standing
  }

  /** How things stood when a turn of a person began that asks for the first time; undefined where it has to look. */
  taken(part: Part, name: TurnName): Standing | undefined {
    const key = keyOf(name)
    const known = this.#known.get(key)
    if (!known?.left.delete(part)) return undefined
    if (known.left.size === 0) this.#known.delete(key)
    return performance.now() - known.at < freshMs ? known.standing : undefined
  }

  /** Forgets how things stood for a person who has just changed them. */
  forget(did: string): void {
    for (const [key, known] of this.#known) if (known.did === did) this.#known.delete(key)
  }

  /**
   * How things stand at the end of a turn that began at a time. On PostgreSQL this holds the row of the person: whoever erases on
   * another replica waits for what the end keeps, or the end knows of the erasing.
   */
  async atEnd(
    trx: MemoryDatabase,
    {
      did,
      sessionId,
      at,
    }: { readonly did: string; readonly sessionId: string; readonly at: number },
  ): Promise<StandingAtEnd> {
    const row = await this.#held(trx, { did, session: sessionId, at })
    const erased = Number(row?.erased ?? 0)
    return {
      mode: modeOf(row, row?.mode ?? this.#usual),
      wasShown: Number(row?.shown ?? 0) > 0,
      erased: erased === 2 ? 'all' : erased === 1 ? 'some' : undefined,
      unread: Number(row?.unread ?? 0),
    }
  }

  async #held(trx: MemoryDatabase, end: EndParameters): Promise<EndRow | undefined> {
    for (let looks = 0; looks < mostLooks; looks++) {
      const [row] = (await this.#atEnd(end, trx)).rows
      if (!this.#isPostgres || (row && row.held !== null && row.held === row.version)) return row
      // Somebody else held the row, and this was read before that: it is read again. A row that is not there cannot be held.
      if (row?.held === null)
        await trx
          .insertInto('memory_people')
          .values({ did: end.did, mode: null, sensitive: 'ask', version: 0, next: 1 })
          .onConflict((conflict) => conflict.doNothing())
          .execute()
    }
    throw new Error('How things stand for a person changed in each moment in which a turn ended.')
  }
}

const parts: readonly Part[] = ['prompt', 'tools']
const keyOf = ({ did, sessionId, requestId }: TurnName) => `${did}\n${sessionId}\n${requestId}`
const modeOf = (row: Pick<Row, 'incognito'> | undefined, mode: Mode): Standing['mode'] =>
  row?.incognito === 1 ? 'incognito' : mode

const nowStatement = (db: MemoryDatabase) =>
  prepared(db, (p: { did: string; session: string; owner: string }) => ({
    compile: () =>
      sql<Row>`select person.mode, person.version, session.incognito from (select 1 as one) as here
        left join memory_people as person on person.did = ${p.owner}
        left join memory_sessions as session
          on session.did = ${p.did} and session.session_id = ${p.session}`.compile(db),
  }))

interface EndParameters {
  readonly did: string
  readonly session: string
  readonly at: number
}

type EndRow = Row & {
  readonly shown: number
  readonly erased: number | null
  readonly unread: number
  /** The version of the row that is held, which may be newer than what stands beside it; null where there is no row. */
  readonly held: number | null
}

const endStatement = (db: MemoryDatabase, isPostgres: boolean) =>
  prepared(db, (p: EndParameters) => ({
    compile: () =>
      sql<EndRow>`select person.mode, person.version, session.incognito,
          (select count(*) from memory_used
            where session_id = ${p.session} and did = ${p.did} and run_id is null) as shown,
          (select max(case when hash = ${sql.lit(everything)} then 2 else 1 end) from memory_erased
            where did = ${p.did} and at >= ${p.at}) as erased,
          (select count(*) from memory_passages
            where session_id = ${p.session} and read_at is null) as unread
          ${isPostgres ? sql`, held.version as held` : sql``}
        from (select 1 as one) as here
        left join memory_people as person on person.did = ${p.did}
        left join memory_sessions as session
          on session.did = ${p.did} and session.session_id = ${p.session}
        ${isPostgres ? heldRow(p.did) : sql``}`.compile(db),
  }))

const heldRow = (did: string) => sql`left join
  (select version from memory_people where did = ${did} for no key update) as held on true`
