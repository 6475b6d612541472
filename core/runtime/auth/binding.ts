import { hash } from 'node:crypto'
import { refuse } from './refusal.ts'
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

interface Binding {
  readonly htm: unknown
  readonly htu: unknown
  readonly bh: unknown
}

/**
 * The request binding among the facts of an invocation, if there is one: `htm` the method, `htu` the
 * path, and where the body matters `bh`, the SHA-256 of its bytes in base64url without padding.
 */
export function bindingOf(invocation: Link): Binding | undefined {
  const bound = invocation.ucan.facts.filter(
    (fact) => 'htm' in fact || 'htu' in fact || 'bh' in fact,
  )
  if (bound.length > 1) refuse('bound to another request')
  const [fact] = bound
  return fact && { htm: fact['htm'], htu: fact['htu'], bh: fact['bh'] }
}

/** Holds a bound invocation against the request it came with, and lets it pass once. */
export async function checkBinding(
  invocation: Link,
  binding: Binding,
  request: BoundRequest,
  replays: Replays,
): Promise<void> {
  const { htm, htu, bh } = binding
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
