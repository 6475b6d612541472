import type { OracleClient } from '../core/client.ts'
import { OracleError, toOracleError } from '../core/error.ts'
import type { AuthzConfig, OracleConfig, Overrides } from '../core/records.ts'
import { ask, readJson, trimmed } from '../core/request.ts'
import { onReturn } from '../core/timing.ts'
import { endpointsOf, type DidDocument, type Endpoints } from './endpoints.ts'

/** How long a configuration is used without asking again. */
const freshMs = 5 * 60_000
/** How long the last good configuration stands in while nothing answers. */
const keptMs = 7 * 24 * 3_600_000
/** How many configurations a page remembers, and how many a browser keeps. */
const most = 20
const prefix = 'oracle-config '

/** What holds the configuration of an oracle for a page. */
interface Owner {
  refetch(): Promise<unknown>
}

interface Kept {
  readonly at: number
  readonly config: OracleConfig
}

const known = new Map<string, Kept>()

/**
 * Finds by its DID where an oracle answers, and what the oracle says of itself. Its owner reads it again when the user
 * returns to the page, if it is missing, stale, or older than five minutes.
 */
export async function resolveOracle(
  owner: Owner,
  oracleDid: string,
  { resolverUrl }: { readonly resolverUrl?: string | undefined },
  wsUrl: string | undefined,
): Promise<OracleConfig> {
  const key = `${prefix}${resolverUrl ?? ''} ${oracleDid}`
  const remembered = known.get(key)
  const isFresh = remembered && Date.now() - remembered.at < freshMs
  let at = 0
  try {
    const found = isFresh ? remembered : await look(key, oracleDid, resolverUrl)
    at = found.at
    return wsUrl ? { ...found.config, wsUrl } : found.config
  } finally {
    askAgainOnReturn(at, new WeakRef(owner))
  }
}

/** Reads document and description. While neither can be reached, the last good configuration stands in. */
async function look(
  key: string,
  oracleDid: string,
  resolverUrl: string | undefined,
): Promise<Kept> {
  try {
    const found = { at: Date.now(), config: await read(oracleDid, resolverUrl) }
    known.delete(key)
    known.set(key, found)
    for (const [oldest] of known) if (known.size > most) known.delete(oldest)
    keep(key, found)
    return found
  } catch (thrown) {
    const cause = thrown instanceof Refused ? thrown : toOracleError(thrown)
    const status = cause instanceof OracleError ? cause.status : 400
    const kept = isAway(status) && keptAs(key)
    if (kept) return { at: 0, config: { ...kept, isStale: true } }
    // An oracle that is gone, or is another, is not found by what it once said.
    if (!isAway(status)) forget(key)
    throw new OracleError(
      'config_unresolved',
      `The address of the oracle ${oracleDid} cannot be found: ${told[status] ?? cause.message}`,
      {
        cause,
        status: cause instanceof OracleError ? status : 0,
        hint: 'Give overrides.baseUrl, or a client with a resolverUrl.',
      },
    )
  }
}

/** What a resolver says by its status alone. */
const told: Readonly<Record<number, string>> = { 404: 'nobody knows it', 410: 'it is deactivated' }

/** Whether an answer says that something is out of reach, and nothing about the oracle. */
const isAway = (status: number) => status === 0 || status === 408 || status === 429 || status >= 500

/** What documents say that no other try mends. */
class Refused extends Error {}

type Facts = OracleConfig & {
  readonly entityDid?: string
  readonly payments?: { readonly authConfig?: AuthzConfig }
}

async function read(oracleDid: string, resolverUrl: string | undefined): Promise<OracleConfig> {
  const document = documentAddress(oracleDid, resolverUrl)
  const endpoints = document ? named(await json<DidDocument>(document)) : undefined
  const facts = await factsAt(endpoints?.apiUrl ?? location.origin, oracleDid)
  const config = {
    ...facts,
    apiUrl: endpoints?.apiUrl ?? trimmed(facts.apiUrl),
    wsUrl: endpoints?.wsUrl ?? facts.wsUrl,
  }
  for (const url of [config.apiUrl, config.wsUrl])
    if (globalThis.location?.protocol === 'https:' && /^(http|ws):/.test(url))
      throw new Refused(`${url} is not encrypted, and this page came by https`)
  return config
}

/** What the oracle at an address says of itself. An address that leads to another oracle says nothing of this one. */
async function factsAt(at: string, oracleDid: string): Promise<Omit<Facts, 'payments'>> {
  const { payments, ...facts } = await json<Facts>(`${at}/.well-known/oracle.json`)
  if (facts.did !== oracleDid && facts.entityDid !== oracleDid)
    throw new Refused(`${at} is the oracle ${facts.did}`)
  return { ...facts, ...(payments?.authConfig && { authConfig: payments.authConfig }) }
}

/** What an oracle says of itself where the page has named its address; no DID is looked up then. */
export const open = (
  _: OracleClient,
  [oracleDid, overrides]: readonly [string, Overrides?],
  tell: (facts: Partial<OracleConfig>) => void,
) => ({
  async read() {
    const at = overrides?.baseUrl
    if (at) await factsAt(trimmed(at), oracleDid).then(tell, () => {})
  },
})

function named(document: DidDocument): Endpoints {
  try {
    return endpointsOf(document)
  } catch (cause) {
    throw new Refused((cause as Error).message)
  }
}

const json = <T>(url: string) =>
  readJson<T>({ headers: { accept: 'application/did-resolution, application/json' } }, (call) =>
    ask(url, call),
  )

/**
 * The address of a DID's document. The DID of a did:web says it; a resolver knows every other. Without a resolver there
 * is none, and the server that the page came from may be the oracle.
 */
export function documentAddress(did: string, resolverUrl: string | undefined): string | undefined {
  const [, method, name = '', ...path] = did.split(':')
  if (method === 'web')
    return `https://${decodeURIComponent(name)}/${path.length ? path.join('/') : '.well-known'}/did.json`
  if (!resolverUrl) return undefined
  const base = new URL(resolverUrl)
  if (base.pathname === '/') base.pathname = '/1.0/identifiers/'
  return `${trimmed(base.href)}/${did}`
}

/** Reading again listens anew, so each configuration has one listener. */
function askAgainOnReturn(at: number, owner: WeakRef<Owner>): void {
  if (typeof window === 'undefined') return
  const back = () => {
    if (owner.deref() && Date.now() - at < freshMs) return
    stop()
    window.removeEventListener('focus', back)
    owner
      .deref()
      ?.refetch()
      .catch(() => {})
  }
  const stop = onReturn(back)
  window.addEventListener('focus', back)
}

// The browser's storage, which a page may not have, or which may be full.

function keep(key: string, found: Kept): void {
  try {
    const old = Object.keys(localStorage).filter((name) => name.startsWith(prefix) && name !== key)
    const dated = old.map((name) => ({ name, at: readKept(name)?.at ?? 0 }))
    dated.sort((a, b) => b.at - a.at)
    for (const [i, { name, at }] of dated.entries())
      if (i >= most - 1 || Date.now() - at > keptMs) localStorage.removeItem(name)
    localStorage.setItem(key, JSON.stringify(found))
  } catch {
    // The page works without it.
  }
}

function keptAs(key: string): OracleConfig | undefined {
  const kept = readKept(key)
  return kept && Date.now() - kept.at < keptMs ? kept.config : undefined
}

function readKept(key: string): Kept | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? '') as Kept
    return typeof kept.at === 'number' && typeof kept.config.apiUrl === 'string' ? kept : undefined
  } catch {
    return undefined
  }
}

function forget(key: string): void {
  known.delete(key)
  try {
    localStorage.removeItem(key)
  } catch {
    // There is no storage, so nothing is kept in it.
  }
}
