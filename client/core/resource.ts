import { toOracleError, type OracleError } from './error.ts'
import { Store } from './store.ts'

/** What is known of a resource. */
export interface Loaded<T> {
  readonly data: T | undefined
  readonly isLoading: boolean
  readonly error: OracleError | null
}

/** Something that a page reads when a component first looks at it, and again when the page calls `refetch`. */
export class Resource<T> extends Store<Loaded<T>> {
  readonly #load: (self: Resource<T>) => Promise<T>
  #loading: Promise<T> | undefined

  /** What reads gets the resource, so that the code behind it can have it read again. */
  constructor(load: (self: Resource<T>) => Promise<T>) {
    super({ data: undefined, isLoading: true, error: null })
    this.#load = load
  }

  protected mount(): void {
    if (!this.getSnapshot().data) this.refetch().catch(() => {})
  }

  /** The data that is known, or else what the first reading gives. */
  async read(): Promise<T> {
    return this.getSnapshot().data ?? this.refetch()
  }

  /** Reads again. One reading at a time serves every caller. */
  refetch = (): Promise<T> => {
    if (this.#loading) return this.#loading
    if (!this.getSnapshot().isLoading) this.set({ isLoading: true })
    const loading = this.#load(this)
      .then(
        (data) => {
          this.set({ data, error: null, isLoading: false })
          return data
        },
        (thrown: unknown) => {
          const error = toOracleError(thrown)
          this.set({ error, isLoading: false })
          throw error
        },
      )
      .finally(() => (this.#loading = undefined))
    return (this.#loading = loading)
  }
}
