import type { Compilable, CompiledQuery, QueryResult } from 'kysely'

/** What carries a statement out: the database, or one of its transactions. */
export interface Executes {
  executeQuery<R>(query: CompiledQuery<R>): Promise<QueryResult<R>>
}

/** Stands in the compiled query where a value comes later. */
class Slot {
  readonly name: string | symbol
  constructor(name: string | symbol) {
    this.name = name
  }
}

/**
 * Builds and compiles a query once; each call then only fills in its parameters. Kysely spends more
 * time on building a point read than SQLite on answering it, so what runs on every request is worth
 * preparing:
 *
 *     const byId = prepared(db, (p: { id: string }) =>
 *       db.selectFrom('sessions').selectAll().where('id', '=', p.id))
 *     const { rows: [session] } = await byId({ id })        // inside a transaction: byId({ id }, trx)
 *
 * `build` sees stand-ins for the values and must pass them on as they are. A list that changes its
 * length (`in`) is another query each time and cannot be prepared.
 */
export function prepared<P extends object, R>(
  db: Executes,
  build: (parameters: P) => Compilable<R>,
): (parameters: P, on?: Executes) => Promise<QueryResult<R>> {
  let compiled: CompiledQuery<R> | undefined
  // The stand-ins have the types of the values: what build may do with them is the same.
  const standIns = new Proxy({}, { get: (_, name) => new Slot(name) }) as P
  return (parameters, on = db) => {
    compiled ??= build(standIns).compile()
    const values = compiled.parameters.map((value) =>
      value instanceof Slot ? Reflect.get(parameters, value.name) : value,
    )
    return on.executeQuery({ ...compiled, parameters: values })
  }
}
