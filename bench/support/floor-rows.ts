import { randomUUID } from 'node:crypto'
import { fdatasync, openSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { promisify } from 'node:util'
import pg from 'pg'

type Row = Readonly<Record<string, SQLInputValue>>

/** A statement with a `?` for each of its values. */
type Statement = readonly [sql: string, ...values: SQLInputValue[]]

/** A database that carries out what is written by hand. */
interface Database {
  all(...statement: Statement): Promise<Row[]>
  /** Carries out all statements or none; with `isKept` the disk has them before it ends. */
  change(statements: readonly Statement[], isKept: boolean): Promise<void>
}

const sync = promisify(fdatasync)

/** SQLite with a sync of its log, where one is asked for. */
class Sqlite implements Database {
  readonly #db: DatabaseSync
  readonly #log: number
  readonly #prepared = new Map<string, ReturnType<DatabaseSync['prepare']>>()

  constructor(file: string) {
    this.#db = new DatabaseSync(file)
    for (const pragma of ['synchronous = normal', 'wal_autocheckpoint = 4000'])
      this.#db.exec(`pragma ${pragma}`)
    this.#log = openSync(`${file}-wal`, 'r+')
  }

  async all(...[sql, ...values]: Statement): Promise<Row[]> {
    return this.#statement(sql).all(...values)
  }

  async change(statements: readonly Statement[], isKept: boolean): Promise<void> {
    this.#db.exec('begin immediate')
    for (const [sql, ...values] of statements) this.#statement(sql).run(...values)
    this.#db.exec('commit')
    if (isKept) await sync(this.#log)
  }

  #statement(sql: string) {
    let statement = this.#prepared.get(sql)
    if (!statement) this.#prepared.set(sql, (statement = this.#db.prepare(sql)))
    return statement
  }
}

/** PostgreSQL, which is asked once for each change, and syncs the disk for each. */
class Postgres implements Database {
  readonly #pool: pg.Pool

  constructor(connectionString: string) {
    // What is read is written again as it is, so it stays text.
    const types = { getTypeParser: () => (text: string) => text } as never
    this.#pool = new pg.Pool({ connectionString, types, max: 10 })
  }

  async all(...[sql, ...values]: Statement): Promise<Row[]> {
    return (await this.#pool.query(numbered(sql), values)).rows
  }

  async change(statements: readonly Statement[]): Promise<void> {
    const parts = statements.map(([sql], nth) => `part_${nth} as (${sql})`)
    const values = statements.flatMap(([, ...values]) => values)
    await this.#pool.query(numbered(`with ${parts.join(', ')} select 1`), values)
  }
}

function numbered(sql: string): string {
  let count = 0
  return sql.replaceAll('?', () => `$${++count}`)
}

/**
 * The rows of sessions and turns, written by hand: those of the newest run that a server has left in a database, a file of SQLite
 * or the address of a PostgreSQL, under new names.
 */
export class Rows {
  readonly #db: Database
  readonly #run: Row
  readonly #session: Row
  readonly #events: Row
  readonly #checkpoint: Row
  readonly #value: Row
  readonly #steps: readonly Row[]

  private constructor(db: Database, rows: readonly Row[], steps: readonly Row[]) {
    this.#db = db
    ;[this.#run, this.#session, this.#events, this.#checkpoint, this.#value] = rows as [
      ...[Row, Row, Row, Row, Row],
    ]
    this.#steps = steps
  }

  static async in(place: string): Promise<Rows> {
    const db = place.startsWith('postgres:') ? new Postgres(place) : new Sqlite(place)
    const one = async (...statement: Statement): Promise<Row> => {
      const [row] = await db.all(...statement)
      if (!row) throw new Error(`No row: ${statement[0]}`)
      return row
    }
    const newest = `select * from kernel_runs where status = 'finished' order by created_at desc`
    const run = await one(`${newest} limit 1`)
    const rows = [
      run,
      await one('select * from kernel_sessions where id = ?', run.session_id!),
      await one('select * from kernel_run_events where run_id = ? limit 1', run.id!),
      await one('select * from checkpoints where id = ?', run.checkpoint!),
      await one('select * from checkpoint_values where thread_id = ? limit 1', run.session_id!),
    ]
    const ofRun = 'select * from kernel_steps where run_id = ? order by position'
    const steps = await db.all(ofRun, run.id!)
    if (steps.length < 8) throw new Error(`The turn in ${place} has too few steps.`)
    return new Rows(db, rows, steps)
  }

  /** A session is made, and the disk has it. */
  session(id: string): Promise<void> {
    return this.#db.change(
      [inserted('kernel_sessions', [{ ...this.#session, id, turns: 0 }])],
      true,
    )
  }

  /** A turn begins. */
  async begin(session: string, turn: number): Promise<string> {
    const id = randomUUID()
    const now = Date.now()
    const named = { id, root_id: id, request_id: id, session_id: session, turn, root_turn: turn }
    const open = { status: 'running', ended_at: null, checkpoint: null, last_seq: 0 }
    await this.#db.change(
      [
        inserted('kernel_runs', [{ ...this.#run, ...named, ...open, created_at: now }]),
        inserted('kernel_steps', this.#stepsOf(session, id, turn).slice(0, 1)),
        ['update kernel_sessions set turns = ?, updated_at = ? where id = ?', turn, now, session],
        ['update kernel_turn_counts set turns = turns + 1 where who = ?', this.#run.did!],
      ],
      false,
    )
    return id
  }

  /** It ends, and the disk has it. */
  end(session: string, run: string, turn: number, checkpoint: string): Promise<void> {
    const now = Date.now()
    const version = { thread_id: session, version: String(turn) }
    return this.#db.change(
      [
        [
          `update kernel_runs set status = 'finished', ended_at = ?, last_seq = ?, kept_seq = ?, checkpoint = ? where id = ?`,
          ...[now, this.#run.last_seq!, this.#run.kept_seq!, checkpoint, run],
        ],
        inserted('kernel_steps', this.#stepsOf(session, run, turn).slice(1)),
        inserted('kernel_run_events', [{ ...this.#events, run_id: run }]),
        inserted('checkpoints', [{ ...this.#checkpoint, thread_id: session, id: checkpoint }]),
        inserted('checkpoint_values', [{ ...this.#value, ...version }]),
        ['update kernel_sessions set updated_at = ? where id = ?', now, session],
      ],
      true,
    )
  }

  #stepsOf(session: string, run: string, turn: number): Row[] {
    const named = { session_id: session, run_id: run, root_id: run }
    return this.#steps.map((row, i) => ({ ...row, ...named, position: turn * 2 ** 20 + i }))
  }
}

function inserted(table: string, rows: readonly Row[]): Statement {
  const names = Object.keys(rows[0]!)
  const marks = `(${names.map(() => '?').join(', ')})`
  return [
    `insert into ${table} (${names.join(', ')}) values ${rows.map(() => marks).join(', ')}`,
    ...rows.flatMap((row) => Object.values(row)),
  ]
}
