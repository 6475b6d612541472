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
   * Rejects with a refusal when there are no keys, and with ISSUER_LOOKUP_UNAVAILABLE when the resolver cannot say so
   * just now. The look-up counts against the share of `address`.
   */
  verificationKeys(did: string, address?: string): Promise<KeysOfDid>
  /** The DID document of a did:ixo, or undefined when the resolver has none to give. */
  document(did: string): Promise<DidDocumentRead | undefined>
}

const keysLiveMs = 60_000
const failuresLiveMs = 5_000
const timeoutMs = 3_000
/** For how long after its time a known document still counts while the resolver is away. */
const staleMs = 10 * 60_000
/** The longest wait for a slow resolver where an older document is known. */
const patienceMs = 500
const maxBytes = 64 * 1024
/** How many documents are kept, and how many DIDs without one; these stand apart, so that a flood pushes no document out. */
const mostKept = 1_000
/** The statuses that say something of the DID: it does not exist, exists no more, or is no DID. */
const definite = new Set([400, 404, 410])

/** What the resolver said of a DID. The document is undefined when there is no such DID, or none that may sign. */
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
  /** Until when the resolver is not asked for a DID again, because it failed at that DID. */
  readonly #failed = new Cache<number>(mostKept)
  readonly #unknown = new LookUps<Known>()
  /** Look-ups of known DIDs, apart from those of unknown ones, so that neither takes the places of the other. */
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
      // Each DID counts as an address of its own here: a thousand known DIDs take turns, and no caller is refused.
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
      // The resolver was out of reach, slow, faulty, or gave no JSON or too much: none of that is the caller's fault.
      if (!stop.aborted) this.#failed.set(did, this.#now() + failuresLiveMs)
      throw lookUpUnavailable(stop.aborted ? 1 : failuresLiveMs / 1000)
    }
  }
}

/** Reads the resolver's response. Throws when the response says nothing about the DID. */
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
