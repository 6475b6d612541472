/**
 * A map that forgets what was used longest ago once it holds `max` entries. While it is less than half full, nothing is
 * about to be forgotten and uses are not noted: on a busy server most are of the same few keys.
 */
export interface Cache<T> {
  get(key: string): T | undefined
  set(key: string, value: T): void
  delete(key: string): void
  readonly size: number
}

/** Makes an empty cache. A JavaScript map keeps insertion order, so its first key is the oldest. */
export function createCache<T>(max: number): Cache<T> {
  const entries = new Map<string, T>()
  return {
    get(key) {
      const value = entries.get(key)
      if (value !== undefined && entries.size * 2 >= max) {
        entries.delete(key)
        entries.set(key, value)
      }
      return value
    },
    set(key, value) {
      entries.delete(key)
      if (entries.size >= max) entries.delete(entries.keys().next().value!)
      entries.set(key, value)
    },
    delete(key) {
      entries.delete(key)
    },
    get size() {
      return entries.size
    },
  }
}
