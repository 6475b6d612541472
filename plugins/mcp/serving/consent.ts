import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import type { Oracle } from '#core'
import type { Claims } from './claims.ts'

/** The one call that a person is asked about. */
export interface AskedCall {
  readonly did: string
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
}

/** What a tool asked the client for, in a seal of its own. */
export interface Round {
  /** What the tool kept. */
  readonly kept: unknown
  /** A person had agreed to the call before the tool asked. */
  readonly isApproved: boolean
}

/** A state of ours that a client brought back with the very call that it is about. */
export interface Sealed {
  readonly nonce: string
  readonly expiresAt: number
  /** The tool's own questions; undefined where a person was asked for consent. */
  readonly round: Round | undefined
}

const lifeMs = 600_000
/** A state of ours is shorter. */
const longestState = 20_000

/**
 * Seals what a person is asked about, for the client to bring back with the answer. The seal binds user, tool and arguments for ten
 * minutes, by a key that every replica derives from the oracle's own, and each seal of a consent runs one call: so a yes that
 * nobody was asked for, that is another's, or that comes twice, runs nothing.
 */
export class Consents {
  readonly #claims: Claims
  readonly #now: () => number
  readonly #oracle: Pick<Oracle, 'key'>
  #key: Buffer | undefined

  constructor(oracle: Pick<Oracle, 'key'>, claims: Claims, now: () => number) {
    this.#oracle = oracle
    this.#claims = claims
    this.#now = now
  }

  /** The state for a call that a person, or with a `round` the client, is asked about now. */
  seal(call: AskedCall, round?: Round): string {
    const about = round && Buffer.from(JSON.stringify(round)).toString('base64url')
    const head = `v1.${this.#now() + lifeMs}.${randomUUID()}.${about ?? ''}`
    return `${head}.${this.#mac(head, call)}`
  }

  /** Reads a state; undefined where it is not ours, has ended or is of another call. It can be used afterwards as before. */
  open(state: string, call: AskedCall): Sealed | undefined {
    if (state.length > longestState) return undefined
    const [version, until = '', nonce = '', about = '', mac = '', ...more] = state.split('.')
    if (version !== 'v1' || more.length > 0) return undefined
    const expected = Buffer.from(this.#mac(`v1.${until}.${nonce}.${about}`, call))
    const given = Buffer.from(mac)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
    const expiresAt = Number(until)
    if (this.#now() >= expiresAt) return undefined
    return { nonce, expiresAt, round: about === '' ? undefined : roundIn(about) }
  }

  /** Uses the consent in a state: true once, on whichever replica. */
  use({ nonce, expiresAt }: Sealed): Promise<boolean> {
    return this.#claims.take(nonce, expiresAt)
  }

  #mac(head: string, { did, tool, args }: AskedCall): string {
    const about = JSON.stringify([head, did, tool, canonical(args)])
    return createHmac('sha256', this.#secret()).update(about).digest('base64url')
  }

  /** The same on every replica: a signature of the oracle's key over words that nothing else has it sign. */
  #secret(): Buffer {
    if (this.#key) return this.#key
    const { key } = this.#oracle
    // Without a key nobody is let in, so no call gets here.
    if (!key) throw new Error('The oracle has no key to seal a question with.')
    const signed = key.sign(
      Buffer.from('oracle-runtime plugin mcp: the seal of questions, version 1'),
    )
    return (this.#key = createHash('sha256').update(signed).digest())
  }
}

/** What a seal of ours says of the tool's questions. */
function roundIn(about: string): Round {
  const { kept, isApproved }: Readonly<Record<string, unknown>> = Object(
    JSON.parse(Buffer.from(about, 'base64url').toString()),
  )
  return { kept, isApproved: isApproved === true }
}

/** JSON in which the order of keys says nothing. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  entries.sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join(',')}}`
}
