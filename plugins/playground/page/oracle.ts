import { createOracleClient, type OracleClient } from 'oracle-runtime-client'
import { createDevelopmentWallet } from 'oracle-runtime-client/wallet'

/** The oracle that the page talks to, and its user: a key that the page makes on the first visit and keeps in this browser. */
export interface Oracle {
  readonly did: string
  readonly name: string
  readonly model: string
  readonly runtime: string
  /** What a turn costs, in words; null where turns are free. */
  readonly price: string | null
  readonly userDid: string
  /** Whether the server lets this page's user do everything. */
  readonly isOperator: boolean
  readonly client: OracleClient
}

let oracle: Oracle

/** Reads the server's description of the oracle, and makes a client for this browser's user. */
export async function meetOracle(): Promise<Oracle> {
  const response = await fetch('/.well-known/oracle.json')
  const facts = (await response.json()) as Oracle & { apiUrl: string }
  await goHome(new URL(facts.apiUrl))
  const { did, name, model, runtime, price = null } = facts
  const { initialWallet: wallet, ...rest } = await createDevelopmentWallet({
    ledger: location.origin,
  })
  // This wallet asks nobody, so its tokens need not outlive a reload.
  const client = createOracleClient({ wallet, ...rest, keepTokens: false })
  if (new URL(facts.apiUrl).origin !== location.origin) askHere(client)
  const isOperator = await mayEverything(wallet.did)
  const userDid = wallet.did
  return (oracle = { did, name, model, runtime, price, userDid, isOperator, client })
}

const loopback = ['localhost', '127.0.0.1', '[::1]']

/**
 * Goes to the address that the server has for itself. Names of this machine are one server and several origins to a browser,
 * and the page asks no other origin.
 */
async function goHome({ origin, hostname, port }: URL): Promise<void> {
  const isSameServer = port === location.port && [hostname, location.hostname].every(isLoopback)
  if (!isSameServer || origin === location.origin) return
  location.replace(origin + location.pathname + location.search + location.hash)
  await new Promise(() => undefined) // until the page is gone
}

/**
 * Has a client ask the server at the address that the page came from. A server that the network reaches has several
 * addresses, tells clients one of them, and the page may ask its own origin alone.
 */
function askHere(client: OracleClient): void {
  const config = client.config.bind(client)
  client.config = (did, overrides) => config(did, { baseUrl: location.origin, ...overrides })
}

const isLoopback = (host: string) => loopback.includes(host)

/**
 * Grants this browser's user everything on this server, so that every view works. The server allows that to its own page
 * in development on the same machine alone; elsewhere the views say which capability is missing.
 */
async function mayEverything(did: string): Promise<boolean> {
  const body = JSON.stringify({ did, capabilities: ['*'], days: 30, note: 'the playground' })
  const headers = { 'content-type': 'application/json' }
  const granted = await fetch('/grants', { method: 'POST', headers, body }).catch(() => undefined)
  return granted?.ok ?? false
}

/** The parts of a request beside its path. */
export interface Ask {
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Asks a route of the server for JSON, as this page's user. */
export const ask = <T>(path: string, call: Ask = {}): Promise<T> =>
  oracle.client.request<T>(oracle.did, path, call)

/** Asks a route of the server for the whole answer, with status and headers. */
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
