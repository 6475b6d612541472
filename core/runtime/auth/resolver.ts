import type { Fetch } from '../../plugin.ts'
import { createCache } from './cache.ts'
import { isCallerDid, publicKeyOf } from './did.ts'
import { keysOf, readDocument, type DidDocumentRead } from './did-document.ts'
import { Refusal, refuse } from './refusal.ts'

/** The Ed25519 keys of a DID, as did:keys, and until when to believe it (milliseconds since 1970). */
export interface KeysOfDid {
  readonly keys: readonly string[]
  readonly until: number
}

/** Finds the keys that may sign for a DID. */
export interface DidResolver {
  /** Rejects with a refusal when there are none. */
  verificationKeys(did: string): Promise<KeysOfDid>
  /** The DID document of a did:ixo, or undefined when it cannot be had. */
  document(did: string): Promise<DidDocumentRead | undefined>
}

const KEYS_LIVE_MS = 60_000
const FAILURES_LIVE_MS = 5_000
const TIMEOUT_MS = 3_000
const MAX_BYTES = 64 * 1024
const MAX_CACHED = 1_000
/** Each unknown DID costs a request of ours, so a flood of them waits for nobody. */
const MAX_UNDER_WAY = 32

interface Known {
  readonly document: DidDocumentRead | undefined
  readonly until: number
}

/**
 * did:key is built in. did:ixo goes to `url`, the W3C DID resolution HTTP binding, with one request
 * at a time for a DID, 3 seconds, 64 KiB, no redirects, and a cache. Other methods have no keys.
 */
export function createResolver({
  url,
  fetch,
  now = Date.now,
}: {
  url?: string
  fetch: Fetch
  now?: () => number
}): DidResolver {
  const base = url === undefined ? undefined : baseOf(url)
  const cache = createCache<Known>(MAX_CACHED)
  const underWay = new Map<string, Promise<Known>>()

  async function ask(did: string): Promise<Known> {
    let document: DidDocumentRead | undefined
    try {
      const response = await fetch(base + did, {
        headers: { accept: 'application/did-resolution, application/did+json, application/json' },
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      document = response.ok ? readDocument(did, await boundedJson(response)) : undefined
      if (!response.ok) await response.body?.cancel()
    } catch {
      // Not reachable, too slow, too long or not JSON: the same to the caller, who has no keys then.
      document = undefined
    }
    const known = { document, until: now() + (document ? KEYS_LIVE_MS : FAILURES_LIVE_MS) }
    cache.set(did, known)
    return known
  }

  async function lookUp(did: string): Promise<Known | undefined> {
    if (base === undefined || !did.startsWith('did:ixo:') || !isCallerDid(did)) return undefined
    const known = cache.get(did)
    if (known && now() < known.until) return known
    const already = underWay.get(did)
    if (already) return already
    if (underWay.size >= MAX_UNDER_WAY) return undefined
    const asked = ask(did).finally(() => underWay.delete(did))
    underWay.set(did, asked)
    return asked
  }

  return {
    document: async (did) => (await lookUp(did))?.document,
    async verificationKeys(did) {
      if (publicKeyOf(did)) return { keys: [did], until: Infinity }
      const { document, until = 0 } = (await lookUp(did)) ?? {}
      const keys = document ? keysOf(document) : []
      if (keys.length === 0) refuse('the keys of the issuer cannot be resolved')
      return { keys, until }
    },
  }
}

/** `https://resolver.example` means its `/1.0/identifiers/`; a longer address is taken as it is. */
function baseOf(url: string): string {
  const base = new URL(url)
  if (base.pathname === '/') base.pathname = '/1.0/identifiers/'
  if (!base.pathname.endsWith('/')) base.pathname += '/'
  return base.href
}

async function boundedJson(response: Response): Promise<unknown> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > MAX_BYTES) throw new Refusal('the keys of the issuer cannot be resolved')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}
