import type { Fetch } from '../plugin.ts'

/** What one address answers: JSON data, a Response, or a function of the request. */
export type FakeAnswer =
  unknown | Response | ((request: Request) => unknown | Response | Promise<unknown | Response>)

/** A `fetch` that remembers what it was asked. */
export interface FakeFetch extends Fetch {
  /** Every request, in order. */
  readonly calls: readonly Request[]
}

/**
 * A stand-in for the network, handed to `testApp({ fetch })`. Keys are addresses without their query; an
 * address that is not among them fails as a lost connection does, with a message that names it.
 */
export function fakeFetch(answers: Readonly<Record<string, FakeAnswer>>): FakeFetch {
  const calls: Request[] = []
  const fetch = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init)
    request.signal.throwIfAborted()
    calls.push(request)
    const { origin, pathname } = new URL(request.url)
    const address = origin + pathname
    if (!Object.hasOwn(answers, address))
      throw new TypeError(
        `fakeFetch has no answer for ${address}; it knows ${Object.keys(answers).join(', ') || 'none'}`,
      )
    const answer = answers[address]
    const value = await untilAborted(
      request.signal,
      typeof answer === 'function' ? answer(request) : answer,
    )
    return value instanceof Response ? value.clone() : Response.json(value)
  }
  return Object.assign(fetch, { calls })
}

/** Waits for an answer as the real `fetch` does: when the caller gives the request up, the promise rejects at once. */
function untilAborted<T>(signal: AbortSignal, value: T | Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    Promise.resolve(value)
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', stop))
  })
}
