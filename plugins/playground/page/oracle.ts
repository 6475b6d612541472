import { useCallback, useEffect, useState } from 'react'
import { createOracleClient, OracleError, type OracleClient } from 'oracle-runtime-client'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'

/** Who the page talks to, and as whom: a key of its own, made on the first visit and kept in this browser. */
export interface Oracle {
  readonly did: string
  readonly name: string
  readonly model: string
  readonly runtime: string
  readonly userDid: string
  readonly client: OracleClient
}

let oracle: Oracle

/** What the server says of itself, and a client for this browser's user. */
export async function meetOracle(): Promise<Oracle> {
  const response = await fetch('/.well-known/oracle.json')
  const { did, name, model, runtime } = (await response.json()) as Oracle
  const { initialWallet: wallet, ...mint } = await createDevelopmentWallet()
  const client = createOracleClient({ wallet, ...mint })
  await mayEverything(wallet.did)
  return (oracle = { did, name, model, runtime, userDid: wallet.did, client })
}

/**
 * Grants this browser's user everything here, so that every view works. The server lets only a page of its own do so,
 * opened on the machine of whoever writes plugins; from anywhere else the views say what is not granted.
 */
async function mayEverything(did: string): Promise<void> {
  const body = JSON.stringify({ did, capabilities: ['*'], days: 30, note: 'the playground' })
  const headers = { 'content-type': 'application/json' }
  await fetch('/grants', { method: 'POST', headers, body }).catch(() => undefined)
}

/** What a request takes beside its path. */
export interface Ask {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** JSON from a route of the server, asked as this page's user. */
export const ask = <T>(path: string, call: Ask = {}): Promise<T> =>
  oracle.client.request<T>(oracle.did, path, call)

/** The whole answer, for pages that show status and headers. */
export async function answer(path: string, call: Ask & { text?: string } = {}): Promise<Response> {
  const { body, method = body === undefined ? 'GET' : 'POST', headers, signal } = call
  return fetch(path, {
    method,
    headers: {
      ...(await oracle.client.tokens.headers(oracle.did)),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    body: call.text ?? (body === undefined ? undefined : JSON.stringify(body)),
    signal,
  })
}

/** The JSON of a path, asked anew when the path changes. Without a path, nothing is asked. */
export function useAnswer<T>(path: string | undefined) {
  const [state, setState] = useState<{ data?: T; error?: OracleError; path?: string }>({})
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    if (path === undefined) return
    const stop = new AbortController()
    ask<T>(path, { signal: stop.signal }).then(
      (data) => !stop.signal.aborted && setState({ data, path }),
      (error: OracleError) => !stop.signal.aborted && setState({ error, path }),
    )
    return () => stop.abort()
  }, [path, turn])
  const reload = useCallback(() => setTurn((count) => count + 1), [])
  return { ...state, isLoading: path !== undefined && state.path !== path, reload }
}
