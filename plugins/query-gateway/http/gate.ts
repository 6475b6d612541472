import { timingSafeEqual, createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { CallError, grpc } from '../statuses.ts'

/** The credentials and headers that the gate asks of clients. */
export interface GateOptions {
  readonly apiKey: string | undefined
  /** Headers that a request must have: `name`, or `name=value` for a header with a certain value. */
  readonly requiredHeaders: readonly string[]
}

/** A header that requests must have, with a certain value or with any. */
interface RequiredHeader {
  readonly name: string
  readonly value: string | undefined
}

/** The deployment's own check in front of every gateway route. */
export class Gate {
  readonly #apiKey: string | undefined
  readonly #required: readonly RequiredHeader[]

  constructor({ apiKey, requiredHeaders }: GateOptions) {
    this.#apiKey = apiKey
    this.#required = requiredHeaders.map((text) => {
      const at = text.indexOf('=')
      return at < 0
        ? { name: text.toLowerCase(), value: undefined }
        : { name: text.slice(0, at).toLowerCase(), value: text.slice(at + 1) }
    })
  }

  /** Whether the gate asks clients for anything. */
  get gated(): boolean {
    return this.#apiKey !== undefined || this.#required.length > 0
  }

  /** Lets a request through or throws: 401 where a credential is missing, 403 where it is wrong. */
  admit(headers: IncomingHttpHeaders): void {
    for (const { name, value } of this.#required) {
      const given = headers[name]
      if (given === undefined) throw missing(`the header ${name}`)
      if (value !== undefined && !isSame(String(given), value)) throw refused()
    }
    if (this.#apiKey === undefined) return
    const given = keyOf(headers)
    if (given === undefined) throw missing('the header X-Api-Key')
    if (!isSame(given, this.#apiKey)) throw refused()
  }

  /** Whether a header carries a credential of the gate, which must not reach the upstream. */
  isOwn(name: string, value: string): boolean {
    const key = this.#apiKey
    const isKey = key !== undefined && value.split(/[\s,]+/).some((word) => isSame(word, key))
    // The value of a required header may be a common word, so it counts as the gate's only under that header's name.
    return isKey || this.#required.some((own) => own.name === name && isGiven(value, own.value))
  }
}

const isGiven = (value: string, expected: string | undefined) =>
  expected !== undefined && isSame(value, expected)

function keyOf(headers: IncomingHttpHeaders): string | undefined {
  const own = headers['x-api-key']
  if (own !== undefined) return String(own)
  return /^bearer (.+)$/i.exec(headers.authorization ?? '')?.[1]
}

/** Compares two texts by their digests, so that neither the time nor the length reveals anything. */
function isSame(given: string, expected: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

const missing = (what: string) =>
  new CallError(grpc.unauthenticated, `This gateway asks for ${what}.`, {
    headers: { 'WWW-Authenticate': 'Bearer realm="gateway"', 'Cache-Control': 'no-store' },
  })
const refused = () =>
  new CallError(grpc.permissionDenied, 'The credentials were not accepted.', {
    headers: { 'Cache-Control': 'no-store' },
  })
