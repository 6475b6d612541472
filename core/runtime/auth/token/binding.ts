import { hash } from 'node:crypto'
import { refuse } from '../did/refusal.ts'
import type { Replays } from './replays.ts'
import type { Link } from './token.ts'

/** The request that a token may be bound to. */
export interface BoundRequest {
  readonly method: string
  /** The path without the query, as it was sent. */
  readonly path: string
  /** The body's bytes, or how to get them; asked for only when the token names their hash. */
  readonly body?: Uint8Array | (() => Promise<Uint8Array>)
}

/** The fact that binds a token: `bh` is the SHA-256 of the body in base64url without padding. */
interface Binding {
  readonly htm?: unknown
  readonly htu?: unknown
  readonly bh?: unknown
}

/** The request binding among the facts of an invocation, if there is one. */
export function bindingOf(invocation: Link): Binding | undefined {
  const bindings = invocation.ucan.facts.filter(
    (fact) => 'htm' in fact || 'htu' in fact || 'bh' in fact,
  )
  if (bindings.length > 1) refuse('bound to another request')
  return bindings[0]
}

/** Compares a bound invocation with the request that brought it, and lets the invocation pass once. */
export async function checkBinding(
  invocation: Link,
  request: BoundRequest,
  replays: Replays,
): Promise<void> {
  const { htm, htu, bh } = bindingOf(invocation) ?? {}
  if (htm !== request.method || htu !== request.path) refuse('bound to another request')
  if (bh !== undefined && bh !== (await bodyHash(request.body))) refuse('bound to another request')
  const key = Buffer.from(invocation.signature).toString('base64')
  const answer = await replays.claim(key, invocation.expiration * 1000)
  if (answer === 'used') refuse('used before')
  if (answer === 'full') refuse('too many bound tokens at once')
}

async function bodyHash(body: BoundRequest['body']): Promise<string> {
  const bytes = typeof body === 'function' ? await body() : body
  return hash('sha256', bytes ?? new Uint8Array(), 'base64url')
}
