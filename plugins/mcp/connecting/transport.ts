import type { OAuthClientProvider, Transport } from '@modelcontextprotocol/client'
import type { ServerConfig, Way } from '../config/config.ts'
import { boundedFetch } from './bounded-fetch.ts'
import { Child } from './child.ts'
import { clientCredentials } from './client-credentials.ts'

/** Makes transports to one server. A token that the server takes is kept from one connection to the next. */
export class Transports {
  readonly #way: Way
  readonly #provider: OAuthClientProvider | undefined

  constructor({ way, oracle }: Pick<ServerConfig, 'way' | 'oracle'>) {
    this.#way = way
    this.#provider = oracle.oauth && clientCredentials(oracle.oauth)
  }

  /** A transport that is not started. Redirects to other hosts are refused. */
  async next(): Promise<Transport> {
    const way = this.#way
    if (way.kind === 'stdio') return new Child(way)
    const sdk = await import('@modelcontextprotocol/client')
    const options = this.#provider
      ? { authProvider: this.#provider, fetch: fetchFor(way) }
      : { requestInit: { headers: { ...way.headers } }, fetch: boundedFetch }
    if (way.kind === 'sse') return new sdk.SSEClientTransport(new URL(way.url), options)
    return new sdk.StreamableHTTPClientTransport(new URL(way.url), options)
  }
}

/** The package fetches tokens by the function that calls the server; the headers of the configuration are the server's alone. */
function fetchFor({ url, headers: own }: Exclude<Way, { kind: 'stdio' }>): typeof boundedFetch {
  const { origin } = new URL(url)
  return (to, init) => {
    if (init?.body instanceof URLSearchParams) return boundedFetch(to, init).then(onlyCode)
    if (new URL(to).origin !== origin) return boundedFetch(to, init)
    const headers = new Headers(own)
    for (const [name, value] of new Headers(init?.headers)) headers.set(name, value)
    return boundedFetch(to, { ...init, headers })
  }
}

/** A refusal without its words: the package writes them to the console, and they may have the secret in them. */
async function onlyCode(response: Response): Promise<Response> {
  if (response.ok) return response
  const said: unknown = await response.json().catch(() => undefined)
  const { error }: Readonly<Record<string, unknown>> = Object(said)
  const code = typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? error : 'server_error'
  return Response.json({ error: code, error_description: code }, { status: response.status })
}
