import { useCallback, useEffect, useState } from 'react'
import { type OracleError, toOracleError } from '../core/error.ts'
import type { Call } from '../core/request.ts'
import type { ViewHost } from './host.ts'
import { useHost } from './root.tsx'

/** Asks a route of the page's server as the page's user, for the whole answer with its status and headers. */
export async function answer(host: ViewHost, path: string, call: Call = {}): Promise<Response> {
  const { body, method = body === undefined ? 'GET' : 'POST', headers, signal } = call
  return fetch(path, {
    method,
    headers: {
      ...(await host.client.tokens.headers(host.oracleDid)),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  })
}

/** What `useAnswer` returns. */
export interface Answer<T> {
  readonly data?: T
  readonly error?: OracleError
  readonly isLoading: boolean
  readonly reload: () => void
}

/** The JSON of a path, which is asked for again when the path changes. Without a path nothing is asked. */
export function useAnswer<T>(path: string | undefined): Answer<T> {
  const { ask } = useHost()
  const [state, setState] = useState<{ data?: T; error?: OracleError; path?: string }>({})
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (path === undefined) return
    const stop = new AbortController()
    ask<T>(path, { signal: stop.signal }).then(
      (data) => !stop.signal.aborted && setState({ data, path }),
      (error: unknown) => !stop.signal.aborted && setState({ error: toOracleError(error), path }),
    )
    return () => stop.abort()
  }, [ask, path, turn])
  const reload = useCallback(() => setTurn((count) => count + 1), [])
  const { data, error } = state
  return { data, error, isLoading: path !== undefined && state.path !== path, reload }
}
