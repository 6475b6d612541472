import type { Fetch } from '../../../plugin.ts'
import { createCache } from '../../base/cache.ts'
import { isCallerDid, publicKeyOf } from './did.ts'
import { keysOf, readDidAnswer, type DidDocumentRead } from './did-document.ts'
import { isLookUpUnavailable, LookUps, lookUpUnavailable } from './lookups.ts'
import { refuse } from './refusal.ts'

/** The Ed25519 keys of a DID, as did:keys, and until when to believe it (milliseconds since 1970). */
interface KeysOfDid {
  readonly keys: readonly string[]
  readonly until: number
}

/** Finds the keys that may sign for a DID. */
export interface DidResolver {
  /**
   * Rejects with a refusal when there are none, and with ISSUER_LOOKUP_UNAVAILABLE when nobody can say so just now.
   * `address` is whose share of the look-ups it costs.
   */
  verificationKeys(did: string, address?: string): Promise<KeysOfDid>
  /** The DID document of a did:ixo, or undefined when it cannot be had. */
  document(did: string): Promise<DidDocumentRead | undefined>
}

const KEYS_LIVE_MS = 60_000
const FAILURES_LIVE_MS = 5_000
const TIMEOUT_MS = 3_000
/** A document that was known answers for so long after its time when the resolver is away. */
const STALE_MS = 10 * 60_000
/** Who is known does not wait longer than this for a slow resolver. */
const PATIENCE_MS = 500
const MAX_BYTES = 64 * 1024
/** Documents that were found, and apart from them, so that a flood pushes none out, DIDs that were not. */
const MAX_CACHED = 1_000
/** Answers that settle the matter: there is no such DID, or no more, or it is none. */
const DEFINITE = new Set([400, 404, 410])

/** `undefined`: there is no such DID, or none that may sign. */
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
  const found = createCache<Known>(MAX_CACHED)
  const missing = createCache<Known>(MAX_CACHED)
  /** Until when a DID is not asked for again, because the resolver failed at it. */
  const failed = createCache<number>(MAX_CACHED)
  const unknown = new LookUps<Known>()
  /** Those of DIDs that are known take no places from each other's address, and these none from them. */
  const refreshing = new LookUps<Known>()

  async function ask(did: string, stop: AbortSignal): Promise<Known> {
    try {
      const response = await fetch(base + did, {
        headers: { accept: 'application/did-resolution, application/did+json, application/json' },
        redirect: 'error',
        signal: AbortSignal.any([stop, AbortSignal.timeout(TIMEOUT_MS)]),
      })
      const answer = await readResponse(did, response)
      const known = {
        ...answer,
        until: now() + (answer.document ? KEYS_LIVE_MS : FAILURES_LIVE_MS),
      }
      const [cache, other] = answer.document ? [found, missing] : [missing, found]
      cache.set(did, known)
      other.delete(did)
      failed.delete(did)
      return known
    } catch {
      // Not reachable, too slow, too long, not JSON, a fault of its own: nobody knows, so it is not the caller's fault.
      if (!stop.aborted) failed.set(did, now() + FAILURES_LIVE_MS)
      throw lookUpUnavailable(stop.aborted ? 1 : FAILURES_LIVE_MS / 1000)
    }
  }

  async function lookUp(did: string, address?: string): Promise<Known | undefined> {
    if (base === undefined || !did.startsWith('did:ixo:') || !isCallerDid(did)) return undefined
    const absent = missing.get(did)
    if (absent && now() < absent.until) return absent
    const known = found.get(did)
    if (known && now() < known.until) return known
    const pausesUntil = failed.get(did) ?? 0
    const pauses = now() < pausesUntil
    if (!known || now() >= known.until + STALE_MS) {
      if (pauses) throw lookUpUnavailable(Math.ceil((pausesUntil - now()) / 1000))
      return unknown.once(did, address, (stop) => ask(did, stop))
    }
    const stale = { ...known, until: now() + FAILURES_LIVE_MS }
    if (pauses) return stale
    try {
      // Each DID is an address of its own here: a thousand that are known take turns, and nobody is refused.
      return await withinPatience(
        refreshing.once(did, did, (stop) => ask(did, stop)),
        stale,
      )
    } catch (error) {
      if (isLookUpUnavailable(error)) return stale
      throw error
    }
  }

  return {
    async document(did) {
      try {
        return (await lookUp(did))?.document
      } catch (error) {
        if (isLookUpUnavailable(error)) return undefined
        throw error
      }
    },
    async verificationKeys(did, address) {
      if (publicKeyOf(did)) return { keys: [did], until: Infinity }
      const { document, until = 0 } = (await lookUp(did, address)) ?? {}
      const keys = document ? keysOf(document) : []
      if (keys.length === 0) refuse('the keys of the issuer cannot be resolved')
      return { keys, until }
    },
  }
}

/** What the resolver knows. Throws when its answer says nothing about the DID. */
async function readResponse(did: string, response: Response): Promise<Pick<Known, 'document'>> {
  if (response.ok) return { document: readDidAnswer(did, await boundedJson(response)) }
  await response.body?.cancel()
  if (DEFINITE.has(response.status)) return { document: undefined }
  throw new Error(`The resolver answered ${response.status}.`)
}

async function withinPatience<T>(work: Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve) => (timer = setTimeout(resolve, PATIENCE_MS, otherwise)))
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
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
    if (length > MAX_BYTES) throw new Error('The answer of the resolver is too long.')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}
