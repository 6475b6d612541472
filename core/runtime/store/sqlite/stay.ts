import type { CompiledQuery, DatabaseConnection, QueryResult } from 'kysely'

/** What those hear who go on with a transaction that was ended for them. */
const tooLong = () =>
  new Error(
    'This transaction was rolled back: it had run no statement for long while others waited for the database. ' +
      'Await nothing slow inside a transaction.',
  )

/** The time in which one query, transaction or stream has the one connection of SQLite. */
export class Stay implements DatabaseConnection {
  readonly #connection: DatabaseConnection
  #lastUsed = performance.now()
  #isOver = false
  #began: Error | undefined

  constructor(connection: DatabaseConnection) {
    this.#connection = connection
  }

  /** How long no statement has run. */
  get idleMs(): number {
    return performance.now() - this.#lastUsed
  }

  /** Where its transaction began, for the log: an error with the stack of that moment. */
  get began(): Error | undefined {
    return this.#began
  }

  /** Notes where a transaction begins. */
  begin(): void {
    this.use()
    this.#began = new Error('A transaction that began here has the database')
  }

  /** Notes that something happens. Throws when the stay was ended. */
  use(): void {
    if (this.#isOver) throw tooLong()
    this.#lastUsed = performance.now()
  }

  /** From now on no statement of this stay runs. */
  end(): void {
    this.#isOver = true
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    this.use()
    const result = this.#connection.executeQuery<R>(query)
    // SQLite has run the statement by now, and that may have taken long.
    this.#lastUsed = performance.now()
    return result
  }

  async *streamQuery<R>(query: CompiledQuery, chunkSize: number): AsyncGenerator<QueryResult<R>> {
    this.use()
    for await (const result of this.#connection.streamQuery<R>(query, chunkSize)) {
      this.use()
      yield result
      this.use()
    }
  }
}
