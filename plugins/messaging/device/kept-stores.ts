import { randomUUID } from 'node:crypto'
import { deserialize, serialize } from 'node:v8'
import type { Held, MessagingDatabase } from '../tables.ts'
import {
  done,
  type IdbDatabase,
  indexedDb,
  listenTo,
  type Shape,
  type Write,
} from './indexed-db.ts'

/** Where the stores of an account are kept. */
export interface KeptStoresOptions {
  readonly db: MessagingDatabase
  readonly account: string
  readonly held: Held
  /** Told once when something could not be written: the stores in memory are no longer those of the table. */
  readonly onFailed: (thrown: unknown) => void
}

/** A write as the table takes it. */
type Row =
  | {
      readonly database: string
      readonly store: string
      readonly key: string
      readonly value?: string
    }
  | { readonly database: string; readonly store?: string; readonly isCleared: true }

const text = (value: unknown) => serialize(value).toString('base64')
const read = (value: string): any => deserialize(Buffer.from(value, 'base64')) // any: what was put there
/** The store, among those of a database, in which the database's own shape stands. */
const shapeStore = '-'

/**
 * The IndexedDB of the encryption, kept in the database: what commits there is written to the table in its order, and
 * `flushed` resolves once all of it is there. Nothing leaves the process before that, so a process that dies at any point
 * has told nobody of a key that is lost.
 */
export class KeptStores {
  /** The name of the databases in this process, which no other holding of the account has. */
  readonly name = `messaging-${randomUUID()}`
  readonly #options: KeptStoresOptions
  #stopListening: () => void = () => undefined
  /** What is to be written, in its order; a shape that is still being read holds the place of its rows. */
  #queue: (readonly Row[] | Promise<readonly Row[]>)[] = []
  #writing: Promise<void> | undefined
  #failed: { readonly thrown: unknown } | undefined

  constructor(options: KeptStoresOptions) {
    this.#options = options
  }

  /** Builds the stores again as they were when the last process had them. */
  async rebuild(): Promise<void> {
    const factory = await indexedDb()
    const { db, account } = this.#options
    const rows = await db
      .selectFrom('messaging_keys')
      .selectAll()
      .where('account', '=', account)
      .execute()
    const shapes = rows.filter(({ store }) => store === shapeStore)
    for (const { database, value } of shapes) {
      const shape: Shape = read(value)
      const opening = factory.open(this.name + database, shape.version)
      opening.addEventListener('upgradeneeded', () => makeStores(opening.result, shape))
      const opened: IdbDatabase = await done(opening)
      const names = shape.stores.map(({ name }) => name)
      if (names.length > 0) {
        const transaction = opened.transaction(names, 'readwrite')
        const isOver = new Promise<void>((resolve) =>
          transaction.addEventListener('complete', resolve),
        )
        for (const { store, key, value: kept } of rows.filter(
          (row) => row.database === database && row.store !== shapeStore,
        )) {
          const target = transaction.objectStore(store)
          if (target.keyPath === null) target.put(read(kept), read(key))
          else target.put(read(kept))
        }
        await isOver
      }
      opened.close()
    }
    // Only now: what is built again is in the table already.
    this.#stopListening = listenTo(this.name, {
      committed: (name, writes) => this.#take(writes.map((write) => this.#row(name, write))),
      reshaped: (name, whole) => this.#take(whole.then((shape) => this.#rowsOf(name, shape))),
    })
  }

  /** Resolves once everything that has committed so far is in the database; rejects when it cannot be written. */
  async flushed(): Promise<void> {
    while (this.#writing || this.#queue.length > 0) {
      this.#writing ??= this.#write().finally(() => (this.#writing = undefined))
      await this.#writing
    }
    if (this.#failed) throw this.#failed.thrown
  }

  /** Forgets the databases of this process; the table keeps them. */
  async close(): Promise<void> {
    this.#stopListening()
    const factory = await indexedDb()
    for (const suffix of databases) await done(factory.deleteDatabase(this.name + suffix))
  }

  #take(rows: readonly Row[] | Promise<readonly Row[]>): void {
    this.#queue.push(rows)
  }

  #row(name: string, write: Write): Row {
    const database = name.slice(this.name.length)
    if ('isCleared' in write) return { database, store: write.store, isCleared: true }
    const { store, key, value } = write
    const kept = 'value' in write ? { value: text(value) } : {}
    return { database, store, key: text(key), ...kept }
  }

  #rowsOf(name: string, shape: Shape): readonly Row[] {
    const database = name.slice(this.name.length)
    const stores = shape.stores.map((store) => ({ ...store, entries: [] }))
    return [
      { database, isCleared: true },
      { database, store: shapeStore, key: '', value: text({ ...shape, stores }) },
      ...shape.stores.flatMap(({ name: store, entries }) =>
        entries.map(([key, value]) => ({ database, store, key: text(key), value: text(value) })),
      ),
    ]
  }

  async #write(): Promise<void> {
    const { held, onFailed } = this.#options
    const queue = this.#queue
    this.#queue = []
    try {
      const rows = (await Promise.all(queue)).flat()
      if (rows.length === 0) return
      await held(async (trx) => {
        for (const row of rows) await this.#put(trx, row)
      })
    } catch (thrown) {
      // What is lost here would be missing under everything that follows: nothing may leave any more.
      if (!this.#failed) onFailed(thrown)
      this.#failed ??= { thrown }
    }
  }

  async #put(trx: MessagingDatabase, row: Row): Promise<void> {
    const { account } = this.#options
    const { database } = row
    const gone = trx
      .deleteFrom('messaging_keys')
      .where('account', '=', account)
      .where('database', '=', database)
    if ('isCleared' in row) {
      await (row.store === undefined ? gone : gone.where('store', '=', row.store)).execute()
    } else if (row.value === undefined) {
      await gone.where('store', '=', row.store).where('key', '=', row.key).execute()
    } else {
      const { store, key, value } = row
      await trx
        .insertInto('messaging_keys')
        .values({ account, database, store, key, value })
        .onConflict((on) =>
          on.columns(['account', 'database', 'store', 'key']).doUpdateSet({ value }),
        )
        .execute()
    }
  }
}

/** The databases that the encryption makes, by what follows the name that it is given. */
const databases = ['::matrix-sdk-crypto', '::matrix-sdk-crypto-meta']

function makeStores(db: IdbDatabase, { stores }: Shape): void {
  for (const { name, keyPath, autoIncrement, indexes } of stores) {
    const store = db.createObjectStore(name, { keyPath, autoIncrement })
    for (const { name: index, keyPath: path, unique, multiEntry } of indexes)
      store.createIndex(index, path, { unique, multiEntry })
  }
}
