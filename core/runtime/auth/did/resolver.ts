import type { Fetch } from '../../../plugin.ts'
import { Cache } from '../../base/cache.ts'
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

const keysLiveMs = 60_000
const failuresLiveMs = 5_000
const timeoutMs = 3_000
/** A document that was known answers for so long after its time when the resolver is away. */
const staleMs = 10 * 60_000
/** Who is known does not wait longer than this for a slow resolver. */
const patienceMs = 500
const maxBytes = 64 * 1024
/** Documents that were found, and apart from them, so that a flood pushes none out, DIDs that were not. */
const mostKept = 1_000
/** Answers that settle the matter: there is no such DID, or no more, or it is none. */
const definite = new Set([400, 404, 410])

/** `undefined`: there is no such DID, or none that may sign. */
interface Known {
  readonly document: DidDocumentRead | undefined
  readonly until: number
}

/**
 * did:key is built in. did:ixo goes to `url`, the W3C DID resolution HTTP binding, with one request
 * at a time for a DID, 3 seconds, 64 KiB, no redirects, and a cache. Other methods have no keys.
 */
export class Resolver implements DidResolver {
  readonly #base: string | undefined
  readonly #fetch: Fetch
  readonly #now: () => number
  readonly #found = new Cache<Known>(mostKept)
  readonly #missing = new Cache<Known>(mostKept)
  /** Until when a DID is not asked for again, because the resolver failed at it. */
  readonly #failed = new Cache<number>(mostKept)
  readonly #unknown = new LookUps<Known>()
  /** Those of DIDs that are known take no places from each other's address, and these none from them. */
  readonly #refreshing = new LookUps<Known>()

  constructor({
    url,
    fetch,
    now = Date.now,
  }: {
    readonly url?: string
    readonly fetch: Fetch
    readonly now?: () => number
  }) {
    this.#base = url === undefined ? undefined : baseOf(url)
    this.#fetch = fetch
    this.#now = now
  }

  async document(did: string): Promise<DidDocumentRead | undefined> {
    try {
      return (await this.#lookUp(did))?.document
    } catch (error) {
      if (isLookUpUnavailable(error)) return undefined
      throw error
    }
  }

  async verificationKeys(did: string, address?: string): Promise<KeysOfDid> {
    if (publicKeyOf(did)) return { keys: [did], until: Infinity }
    const { document, until = 0 } = (await this.#lookUp(did, address)) ?? {}
    const keys = document ? keysOf(document) : []
    if (keys.length === 0) refuse('the keys of the issuer cannot be resolved')
    return { keys, until }
  }

  async #lookUp(did: string, address?: string): Promise<Known | undefined> {
    const base = this.#base
    if (base === undefined || !did.startsWith('did:ixo:') || !isCallerDid(did)) return undefined
    const now = this.#now
    const absent = this.#missing.get(did)
    if (absent && now() < absent.until) return absent
    const known = this.#found.get(did)
    if (known && now() < known.until) return known
    const pausesUntil = this.#failed.get(did) ?? 0
    const pauses = now() < pausesUntil
    const ask = (stop: AbortSignal) => this.#ask(base, did, stop)
    if (!known || now() >= known.until + staleMs) {
      if (pauses) throw lookUpUnavailable(Math.ceil((pausesUntil - now()) / 1000))
      return this.#unknown.once(did, address, ask)
    }
    const stale = { ...known, until: now() + failuresLiveMs }
    if (pauses) return stale
    try {
      // Each DID is an address of its own here: a thousand that are known take turns, and nobody is refused.
      return await withinPatience(this.#refreshing.once(did, did, ask), stale)
    } catch (error) {
      if (isLookUpUnavailable(error)) return stale
      throw error
    }
  }

  async #ask(base: string, did: string, stop: AbortSignal): Promise<Known> {
    try {
      const response = await this.#fetch(base + did, {
        headers: { accept: 'application/did-resolution, application/did+json, application/json' },
        redirect: 'error',
        signal: AbortSignal.any([stop, AbortSignal.timeout(timeoutMs)]),
      })
      const { document } = await readResponse(did, response)
      const known = { document, until: this.#now() + (document ? keysLiveMs : failuresLiveMs) }
      const [cache, other] = document ? [this.#found, this.#missing] : [this.#missing, this.#found]
      cache.set(did, known)
      other.delete(did)
      this.#failed.delete(did)
      return known
    } catch {
      // Not reachable, too slow, too long, not JSON, a fault of its own: nobody knows, so it is not the caller's fault.
      if (!stop.aborted) this.#failed.set(did, this.#now() + failuresLiveMs)
      throw lookUpUnavailable(stop.aborted ? 1 : failuresLiveMs / 1000)
    }
  }
}

/** What the resolver knows. Throws when its answer says nothing about the DID. */
async function readResponse(did: string, response: Response): Promise<Pick<Known, 'document'>> {
  if (response.ok) return { document: readDidAnswer(did, await boundedJson(response)) }
  await response.body?.cancel()
  if (definite.has(response.status)) return { document: undefined }
  throw new Error(`The resolver answered ${response.status}.`)
}

async function withinPatience<T>(work: Promise<T>, otherwise: T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<T>((resolve) => (timer = setTimeout(resolve, patienceMs, otherwise)))
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
    if (length > maxBytes) throw new Error('The answer of the resolver is too long.')
    chunks.push(chunk)
  }
  return JSON.parse(Buffer.concat(chunks).toString('utf8'))
}
