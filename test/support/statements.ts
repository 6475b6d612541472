import { DatabaseSync, StatementSync } from 'node:sqlite'
import pg from 'pg'

/** Hears of a statement once the database has answered it; `connection` is the same object for all statements of a connection. */
export type HearsStatement = (text: string, connection: object) => void

const sqlite = {}

/** Tells of every statement that this process sends to a database, of either kind. Resolves to what ends it. */
export function watchStatements(hears: HearsStatement): () => void {
  const undo = [...watchSqlite(hears), watchPostgres(hears)]
  return () => {
    for (const back of undo) back()
  }
}

/** Puts another function in the place of a method; the result puts the method back. */
function inPlace(of: object, name: string, value: (this: any, ...args: any[]) => unknown) {
  const before = Object.getOwnPropertyDescriptor(of, name) ?? {}
  Object.defineProperty(of, name, { ...before, value })
  return () => void Object.defineProperty(of, name, before)
}

function watchSqlite(hears: HearsStatement): (() => void)[] {
  const statements = (['all', 'run'] as const).map((name) => {
    const original = StatementSync.prototype[name]
    return inPlace(StatementSync.prototype, name, function (...values) {
      const answer: unknown = Reflect.apply(original, this, values)
      hears(this.sourceSQL, sqlite)
      return answer
    })
  })
  const original = DatabaseSync.prototype.exec
  const exec = inPlace(DatabaseSync.prototype, 'exec', function (text) {
    original.call(this, text)
    hears(text, sqlite)
  })
  return [...statements, exec]
}

function watchPostgres(hears: HearsStatement): () => void {
  const original = pg.Client.prototype.query
  return inPlace(pg.Client.prototype, 'query', function (...args) {
    const [first] = args
    const text = typeof first === 'string' ? first : String(Object(first).text)
    const answer: unknown = Reflect.apply(original, this, args)
    if (!(answer instanceof Promise)) return answer
    return answer.then((rows: unknown) => {
      hears(text, this)
      return rows
    })
  })
}
