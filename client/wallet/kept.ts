/** How long the browser's database may take before the wallet goes on without it. */
const patienceMs = 5_000
const database = 'oracle-wallet'
const table = 'kept'

/** What one wallet keeps in this browser: keys that nothing can export, and texts that such a key has sealed. */
export interface Kept {
  /** The user. */
  readonly did: string
  /** Signs for the user; its private half cannot be exported. */
  readonly pair: CryptoKeyPair
  /** Milliseconds since 1970: the end of what the key may do. */
  readonly until: number
  /** The passkey that the user came with. */
  readonly credential?: Uint8Array
  /** What `seal` made of the tokens, and the key that opens it. */
  readonly sealed?: { readonly key: CryptoKey; readonly iv: Uint8Array; readonly data: ArrayBuffer }
}

/** The browser's database of wallets. Where the browser refuses one (a private window), this page's memory stands in. */
export const keptWallets = {
  async get(name: string): Promise<Kept | undefined> {
    const found = await within<Kept | undefined>('readonly', (rows) => rows.get(name))
    return found === refused ? memory.get(name) : found
  },
  /** Whether the browser kept it; else it is gone at the next load of the page. */
  async set(name: string, kept: Kept): Promise<boolean> {
    const isKept = (await within('readwrite', (rows) => rows.put(kept, name))) !== refused
    if (!isKept) memory.set(name, kept)
    return isKept
  },
  async delete(name: string): Promise<void> {
    memory.delete(name)
    await within('readwrite', (rows) => rows.delete(name))
  },
}

const memory = new Map<string, Kept>()
const refused = Symbol('refused')

async function within<T>(
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
      opened = await open()
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

function open(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(database, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(table)
    request.onsuccess = () => resolve(request.result)
    request.onerror = request.onblocked = () => reject(request.error)
  })
}

/** Encrypts what may be read with the sealing key alone, which cannot leave the browser. */
export async function seal(value: unknown): Promise<NonNullable<Kept['sealed']>> {
  const key = await crypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, [
    'encrypt',
    'decrypt',
  ])
  const iv = crypto.getRandomValues(new Uint8Array(12))
  const text = new TextEncoder().encode(JSON.stringify(value))
  return { key, iv, data: await crypto.subtle.encrypt({ name: 'AES-GCM', iv }, key, text) }
}

/** What was sealed; undefined where it does not open. */
export async function unsealed<T>(sealed: Kept['sealed']): Promise<T | undefined> {
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
