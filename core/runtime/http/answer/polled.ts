/** The name of `Polled`'s method; a symbol, for a plugin's own stream may have a `poll` of its own. */
export const poll = Symbol('poll')

/** A stream that tells without a promise what it has: one for every word of every chat adds up. */
export interface Polled<T = unknown> extends AsyncIterator<T> {
  /** What there is now. When there is nothing yet, `ready` is called once when it is worth asking again. */
  [poll](ready: () => void): IteratorResult<T> | undefined
}

/** Whether a stream can be asked for what it has now. */
export const isPolled = (source: AsyncIterator<unknown>): source is Polled => poll in source
