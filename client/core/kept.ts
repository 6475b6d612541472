/** How long the browser's database may take before the page goes on without it. */
const patienceMs = 5_000

/** A value that a key of this browser encrypted, with that key, which nothing can export. */
export interface Sealed {
  readonly key: CryptoKey
  readonly iv: Uint8Array
  readonly data: ArrayBuffer
}

/** What `within` gives where the browser refuses a database, in a private window for example. */
export const refused = Symbol('refused')

/** Asks one of this site's databases; each has a single table. */
export async function within<T>(
  database: string,
  mode: IDBTransactionMode,
  ask: (rows: IDBObjectStore) => IDBRequest,
): Promise<T | typeof refused> {
  let opened: IDBDatabase | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('The database does not answer.')), patienceMs)
  })
  try {
    const asking = (async () => {
      opened = await open(database)
      const transaction = opened.transaction(table, mode)
      const request = ask(transaction.objectStore(table))
      await new Promise<void>((resolve, reject) => {
        transaction.oncomplete = () => resolve()
        transaction.onabort = transaction.onerror = () => reject(transaction.error)
      })
      return request.result as T
    })()
    return await Promise.race([asking, late])
  } catch {
    return refused
  } finally {
    clearTimeout(timer)
    opened?.close()
  }
}

const table = 'kept'

function open(database: string): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(database, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(table)
    request.onsuccess = () => resolve(request.result)
    request.onerror = request.onblocked = () => reject(request.error)
  })
}

/** Encrypts a value under a key that nothing can export. */
export async function seal(value: unknown): Promise<Sealed> {
  const key = await crypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, [
    'encrypt',
    'decrypt',
  ])
  const iv = crypto.getRandomValues(new Uint8Array(12))
  const text = new TextEncoder().encode(JSON.stringify(value))
  return { key, iv, data: await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, key, text) }
}

/** What was sealed; undefined where it does not open. */
export async function unsealed<T>(sealed: Sealed | undefined): Promise<T | undefined> {
  if (!sealed) return undefined
  const { key, data } = sealed
  const iv = new Uint8Array(sealed.iv)
  try {
    const text = await crypto.subtle.decrypt({ name: 'AES-GCM', iv }, key, data)
    return JSON.parse(new TextDecoder().decode(text)) as T
  } catch {
    return undefined
  }
}
