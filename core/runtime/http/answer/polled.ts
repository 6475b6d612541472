/** The name of `Polled`'s method; a symbol, for a plugin's own stream may have a `poll` of its own. */
export const poll = Symbol('poll')

/** A stream that gives its items without promises: a promise for every word of every chat adds up. */
export interface Polled<T = unknown> extends AsyncIterator<T> {
  /** The next item. When there is none yet, the stream calls `ready` once, as soon as asking again is worth it. */
  [poll](ready: () => void): IteratorResult<T> | undefined
}

/** Whether a stream can be asked for what it has now. */
export const isPolled = (source: AsyncIterator<unknown>): source is Polled => poll in source
