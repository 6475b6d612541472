import { createHash, createHmac, randomUUID, timingSafeEqual } from 'node:crypto'
import type { Oracle } from '#core'
import type { Claims } from './claims.ts'

/** The one call that a person is asked about. */
export interface AskedCall {
  readonly did: string
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
}

/** What became of the state that a client brought back. */
export type Verdict = 'good' | 'wrong' | 'used'

const lifeMs = 600_000
/** A state of ours is shorter. */
const longestState = 300

/**
 * Seals what a person is asked about, for the client to bring back with the answer. The seal binds user, tool and arguments for ten
 * minutes, by a key that every replica derives from the oracle's own, and each seal runs one call: so a yes that nobody was
 * asked for, that is another's, or that comes twice, runs nothing.
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

  /** The state for a call that a person is asked about now. */
  seal(call: AskedCall): string {
    const head = `v1.${this.#now() + lifeMs}.${randomUUID()}`
    return `${head}.${this.#mac(head, call)}`
  }

  /** Whether a state is ours and of this very call. It can be used afterwards as before. */
  isOf(state: string, call: AskedCall): boolean {
    return this.#read(state, call) !== undefined
  }

  /** Uses a state for this very call, which counts once. */
  async use(state: string, call: AskedCall): Promise<Verdict> {
    const read = this.#read(state, call)
    if (!read) return 'wrong'
    return (await this.#claims.take(read.nonce, read.expiresAt)) ? 'good' : 'used'
  }

  #read(state: string, call: AskedCall) {
    if (state.length > longestState) return undefined
    const [version, until = '', nonce = '', mac = '', ...more] = state.split('.')
    if (version !== 'v1' || more.length > 0) return undefined
    const expected = Buffer.from(this.#mac(`v1.${until}.${nonce}`, call))
    const given = Buffer.from(mac)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined
    const expiresAt = Number(until)
    return this.#now() < expiresAt ? { nonce, expiresAt } : undefined
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

/** JSON in which the order of keys says nothing. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  entries.sort(([one], [other]) => (one < other ? -1 : 1))
  return `{${entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`).join(',')}}`
}
