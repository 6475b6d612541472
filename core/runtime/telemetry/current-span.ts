import { AsyncLocalStorage } from 'node:async_hooks'

const spans = new AsyncLocalStorage<string>()

/** Does work as part of a span, which whatever the work begins finds by `currentSpan`. Without a span the work is just done. */
export const inSpan = <Result>(traceparent: string | undefined, work: () => Result): Result =>
  traceparent === undefined ? work() : spans.run(traceparent, work)

/** The `traceparent` of the span that the code around is part of; undefined where there is none. */
export const currentSpan = (): string | undefined => spans.getStore()
