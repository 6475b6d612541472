/** As much of IndexedDB as the keeping of stores uses. Node has none, and no types of it. */
export interface IdbRequest {
  readonly result: any // any: what a request gives depends on the request
  readonly error: unknown
  addEventListener(type: string, listen: () => void): void
}

export interface IdbStore {
  readonly name: string
  readonly keyPath: string | string[] | null
  readonly autoIncrement: boolean
  readonly indexNames: Iterable<string>
  readonly transaction: IdbTransaction
  index(name: string): {
    readonly keyPath: string | string[]
    readonly unique: boolean
    readonly multiEntry: boolean
  }
  createIndex(name: string, keyPath: string | string[], options: object): unknown
  put(value: unknown, key?: unknown): IdbRequest
  getAll(range?: unknown): IdbRequest
  getAllKeys(range?: unknown): IdbRequest
}

export interface IdbTransaction {
  readonly db: IdbDatabase
  readonly mode: string
  objectStore(name: string): IdbStore
  addEventListener(type: string, listen: () => void): void
}

export interface IdbDatabase {
  readonly name: string
  readonly version: number
  readonly objectStoreNames: Iterable<string>
  createObjectStore(name: string, options: object): IdbStore
  transaction(stores: readonly string[], mode: string): IdbTransaction
  close(): void
}

export interface IdbFactory {
  open(name: string, version?: number): IdbRequest & { readonly transaction: IdbTransaction | null }
  deleteDatabase(name: string): IdbRequest
}

/** What hears of every write that commits, by the name of the database. */
export interface Listener {
  /** One transaction has committed: these writes, in their order. */
  committed(database: string, writes: readonly Write[]): void
  /** A database has other stores than before: everything in it is to be kept anew. */
  reshaped(database: string, whole: Promise<Shape>): void
}

/** One write: without a value the key is gone. */
export type Write =
  | { readonly store: string; readonly key: unknown; readonly value?: unknown }
  | { readonly store: string; readonly isCleared: true }

/** The stores of a database, with what stands in them. */
export interface Shape {
  readonly version: number
  readonly stores: readonly {
    readonly name: string
    readonly keyPath: string | string[] | null
    readonly autoIncrement: boolean
    readonly indexes: readonly {
      readonly name: string
      readonly keyPath: string | string[]
      readonly unique: boolean
      readonly multiEntry: boolean
    }[]
    readonly entries: readonly (readonly [key: unknown, value: unknown])[]
  }[]
}

/** What an IndexedDB request gives. */
export function done(request: IdbRequest): Promise<any> {
  return new Promise((resolve, reject) => {
    request.addEventListener('success', () => resolve(request.result))
    request.addEventListener('error', () => reject(request.error))
  })
}

const listeners = new Map<string, Listener>()
let installed: Promise<IdbFactory> | undefined

/** Hears of the writes to every database whose name begins so; returns what ends that. */
export function listenTo(prefix: string, listener: Listener): () => void {
  listeners.set(prefix, listener)
  return () => void listeners.delete(prefix)
}

const listenerOf = (database: string): Listener | undefined =>
  [...listeners].find(([prefix]) => database.startsWith(prefix))?.[1]

/**
 * IndexedDB for the encryption, which looks for it among the globals. Every write is heard by way of the methods that
 * IndexedDB documents.
 */
export function indexedDb(): Promise<IdbFactory> {
  installed ??= install()
  return installed
}

async function install(): Promise<IdbFactory> {
  const made: Record<string, unknown> = await import('fake-indexeddb')
  const globals: Record<string, any> = globalThis // any: the globals that are made here
  for (const [name, value] of Object.entries(made))
    if (name === 'indexedDB' || name.startsWith('IDB'))
      Object.defineProperty(globals, name, { value, configurable: true, writable: true })
  const pending = new WeakMap<object, Write[]>()
  const writesOf = (transaction: IdbTransaction): Write[] | undefined => {
    const { name } = transaction.db
    if (transaction.mode === 'versionchange' || !listenerOf(name)) return undefined
    const known = pending.get(transaction)
    if (known) return known
    const writes: Write[] = []
    pending.set(transaction, writes)
    transaction.addEventListener('complete', () => listenerOf(name)?.committed(name, writes))
    return writes
  }
  hearStores(globals.IDBObjectStore.prototype, writesOf)
  hearCursors(globals.IDBCursor.prototype, writesOf)
  hearShapes(globals.IDBFactory.prototype)
  return globals.indexedDB
}

type Prototype = Record<string, (...given: any[]) => any> // any: methods are put around methods
type WritesOf = (transaction: IdbTransaction) => Write[] | undefined

function hearStores(prototype: Prototype, writesOf: WritesOf): void {
  for (const method of ['put', 'add']) {
    const original = prototype[method]
    prototype[method] = function (this: IdbStore, value: unknown, key?: unknown) {
      const writes = writesOf(this.transaction)
      const kept = writes && structuredClone(value) // now: the caller may change the value later
      const request: IdbRequest =
        key === undefined ? original?.call(this, value) : original?.call(this, value, key)
      request.addEventListener('success', () =>
        writes?.push({ store: this.name, key: request.result, value: kept }),
      )
      return request
    }
  }
  const remove = prototype.delete
  prototype.delete = function (this: IdbStore, range: unknown) {
    const writes = writesOf(this.transaction)
    if (writes) {
      const keys = this.getAllKeys(range)
      keys.addEventListener('success', () => {
        for (const key of keys.result) writes.push({ store: this.name, key })
      })
    }
    return remove?.call(this, range)
  }
  const clear = prototype.clear
  prototype.clear = function (this: IdbStore) {
    const writes = writesOf(this.transaction)
    const request: IdbRequest = clear?.call(this)
    request.addEventListener('success', () => writes?.push({ store: this.name, isCleared: true }))
    return request
  }
}

interface Cursor {
  readonly source: IdbStore | { readonly objectStore: IdbStore }
  readonly primaryKey: unknown
}

function hearCursors(prototype: Prototype, writesOf: WritesOf): void {
  for (const method of ['update', 'delete']) {
    const original = prototype[method]
    prototype[method] = function (this: Cursor, value?: unknown) {
      const store = 'objectStore' in this.source ? this.source.objectStore : this.source
      const key = this.primaryKey
      const writes = writesOf(store.transaction)
      const kept = method === 'update' ? { value: structuredClone(value) } : {}
      const request: IdbRequest = original?.call(this, value)
      request.addEventListener('success', () => writes?.push({ store: store.name, key, ...kept }))
      return request
    }
  }
}

function hearShapes(prototype: Prototype): void {
  const open = prototype.open
  prototype.open = function (this: unknown, name: string, version?: number) {
    const request: IdbRequest = open?.call(this, name, ...(version === undefined ? [] : [version]))
    let isReshaped = false
    request.addEventListener('upgradeneeded', () => (isReshaped = true))
    request.addEventListener('success', () => {
      // Before whoever opened the database writes to it: reads begun now see it as the upgrade left it.
      if (isReshaped) listenerOf(name)?.reshaped(name, shapeOf(request.result))
    })
    return request
  }
}

/** Everything that stands in a database now. */
export async function shapeOf(db: IdbDatabase): Promise<Shape> {
  const names = [...db.objectStoreNames]
  if (names.length === 0) return { version: db.version, stores: [] }
  const transaction = db.transaction(names, 'readonly')
  const stores = names.map((name) => {
    const store = transaction.objectStore(name)
    const indexes = [...store.indexNames].map((index) => {
      const { keyPath, unique, multiEntry } = store.index(index)
      return { name: index, keyPath, unique, multiEntry }
    })
    const { keyPath, autoIncrement } = store
    const read = Promise.all([done(store.getAllKeys()), done(store.getAll())])
    return read.then(([keys, values]: [unknown[], unknown[]]) => {
      const entries = keys.map((key, n) => [key, values[n]] as const)
      return { name, keyPath, autoIncrement, indexes, entries }
    })
  })
  return { version: db.version, stores: await Promise.all(stores) }
}
