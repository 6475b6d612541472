import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite'
import type { QueryResult } from 'kysely'
import { booleansOf, isInTransaction, isOlderNode } from './older-node.ts'

/** Statements that leave the schema as it is; after any other statement the cached ones may be stale. */
const rowsOnly = /^\s*(select|insert|update|delete|replace|with|values)\b/i
const insertion = /^\s*(insert|replace)\b/i
const change = /^\s*(insert|update|delete|replace|with)\b/i
const changeWithin = /\b(insert|update|delete|replace)\b/i
const returning = /\breturning\b/i
const comment = /--[^\n]*|\/\*[\s\S]*?\*\//g

/**
 * The statements of one connection, prepared once and kept in two generations: when the young one
 * is full it becomes the old one, and what was not used since then is dropped.
 */
export class StatementCache {
  readonly #database: DatabaseSync
  readonly #capacity: number
  #young = new Map<string, Statement>()
  #old = new Map<string, Statement>()

  constructor(database: DatabaseSync, capacity = 128) {
    this.#database = database
    this.#capacity = capacity
  }

  get(sql: string): Statement {
    const statement = this.#young.get(sql)
    if (statement) return statement
    if (this.#young.size >= this.#capacity) {
      this.#old = this.#young
      this.#young = new Map()
    }
    const kept = this.#old.get(sql) ?? new Statement(this.#database, sql)
    this.#young.set(sql, kept)
    return kept
  }

  clear(): void {
    this.#young.clear()
    this.#old.clear()
  }
}

/** A prepared statement with the values that PostgreSQL's driver gives: booleans, safe numbers, plain rows. */
export class Statement {
  /** Whether the statement may create, alter or drop something. */
  readonly changesSchema: boolean
  /** Whether the statement may change anything. */
  readonly changes: boolean
  readonly #database: DatabaseSync
  readonly #sql: string
  readonly #prepared: StatementSync
  readonly #columns: readonly string[]
  /** A row without values. A copy of it stays a fast object; built column by column, a wide row becomes a slow dictionary. */
  readonly #empty: Readonly<Record<string, unknown>>
  readonly #booleans: ReadonlySet<string>
  readonly #returnsRows: boolean
  readonly #isScript: boolean
  readonly #isChange: boolean
  readonly #isInsertion: boolean

  constructor(database: DatabaseSync, sql: string) {
    this.#database = database
    this.#sql = sql
    this.#prepared = database.prepare(sql)
    // Arrays are cheaper to read than the dictionary objects of node:sqlite, and integers beyond
    // 2^53 would throw when read as numbers.
    if (!isOlderNode) this.#prepared.setReturnArrays(true)
    this.#prepared.setReadBigInts(true)
    const columns = isOlderNode ? [] : this.#prepared.columns()
    this.#columns = columns.map((column) => column.name)
    this.#empty = JSON.parse(
      `{${this.#columns.map((name) => `${JSON.stringify(name)}:null`).join()}}`,
    )
    // SQLite compiles the first statement of a text and ignores the rest without a word.
    const rest = sql.slice(this.#prepared.sourceSQL.length)
    this.#isScript = rest.replace(comment, '').replace(/[\s;]/g, '') !== ''
    const words = sql.replace(comment, '')
    this.#isChange = change.test(words)
    this.#isInsertion = insertion.test(words)
    this.changesSchema = this.#isScript || !rowsOnly.test(words)
    this.changes = this.changesSchema || (this.#isChange && changeWithin.test(words))
    this.#returnsRows = isOlderNode
      ? !(this.#isChange && changeWithin.test(words)) || returning.test(words)
      : columns.length > 0
    this.#booleans = isOlderNode
      ? booleansOf(database, this.#returnsRows ? words : '')
      : new Set(
          columns.filter(({ type }) => type?.toLowerCase() === 'boolean').map(({ name }) => name),
        )
  }

  execute<R>(parameters: readonly unknown[]): QueryResult<R> {
    if (this.#isScript) return this.#runScript(parameters)
    const values = bind(parameters)
    if (this.#returnsRows) {
      return { rows: this.#prepared.all(...values).map((row) => this.#read<R>(row)) }
    }
    const { changes, lastInsertRowid } = this.#prepared.run(...values)
    return {
      rows: [],
      // SQLite gives both numbers for the last change, whichever statement made that change.
      numAffectedRows: this.#isChange ? BigInt(changes) : undefined,
      insertId: this.#isInsertion ? BigInt(lastInsertRowid) : undefined,
    }
  }

  *iterate<R>(parameters: readonly unknown[]): Generator<R> {
    for (const row of this.#prepared.iterate(...bind(parameters))) yield this.#read<R>(row)
  }

  #runScript<R>(parameters: readonly unknown[]): QueryResult<R> {
    if (parameters.length > 0)
      throw new TypeError(
        'Several statements in one text cannot take parameters: send each statement alone.',
      )
    if (isInTransaction(this.#database)) this.#database.exec(this.#sql)
    else this.#runWhole(this.#sql)
    return { rows: [] }
  }

  /** Runs the whole script or nothing of it, as PostgreSQL does. */
  #runWhole(script: string): void {
    this.#database.exec('begin immediate')
    try {
      this.#database.exec(script)
      this.#database.exec('commit')
    } catch (error) {
      if (isInTransaction(this.#database)) this.#database.exec('rollback')
      throw error
    }
  }

  /** Reads by place: `setReturnArrays` makes arrays, which the types of node:sqlite do not tell from objects. */
  #read<R>(values: Readonly<Record<number, SQLOutputValue>>): R {
    if (isOlderNode) return this.#readByName(values) as R // Kysely's contract, as below
    const row = { ...this.#empty }
    const columns = this.#columns
    for (let i = 0; i < columns.length; i++) {
      const value = values[i]
      const name = columns[i]!
      row[name] = typeof value === 'bigint' ? this.#readInteger(value, name) : value
    }
    return row as R // Kysely's contract: the query names the type of its rows
  }

  #readByName(values: Readonly<Record<string, SQLOutputValue>>): Record<string, unknown> {
    const row: Record<string, unknown> = {}
    for (const [name, value] of Object.entries(values))
      row[name] = typeof value === 'bigint' ? this.#readInteger(value, name) : value
    return row
  }

  #readInteger(value: bigint, column: string): boolean | number | bigint {
    if (this.#booleans.has(column)) return value !== 0n
    const number = Number(value)
    return Number.isSafeInteger(number) ? number : value
  }
}

/** What `node:sqlite` can bind. PostgreSQL's driver takes the same values for the same meaning. */
function bind(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters.map((value, i) => {
    switch (typeof value) {
      case 'string':
      case 'bigint':
        return value
      case 'number':
        // `node:sqlite` binds a number as a double: "1.0" in a text column, 3.0 in JSON, 3 / 2 = 1.5.
        return Number.isSafeInteger(value) ? BigInt(value) : value
      case 'boolean':
        return value ? 1n : 0n
      case 'undefined':
        // Kysely drops undefined where it means "leave it out" (values, set). What still comes here
        // is a bare parameter, and pg sends NULL for it: the two databases must agree.
        return null
    }
    if (value === null || value instanceof Uint8Array) return value
    const kind =
      value instanceof Date
        ? 'a Date: give its toISOString()'
        : `an ${typeof value}: give text, such as its JSON`
    throw new TypeError(`Parameter ${i + 1} of the query is ${kind}.`)
  })
}
