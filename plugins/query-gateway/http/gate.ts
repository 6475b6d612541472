import { timingSafeEqual, createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { CallError, grpc } from '../statuses.ts'

/** What the gate asks of clients. */
export interface GateOptions {
  readonly apiKey: string | undefined
  /** `name` must be there, `name=value` must have that value. */
  readonly requiredHeaders: readonly string[]
}

/** The deployment's own check in front of every gateway route. */
export interface Gate {
  /** Whether it asks for anything. */
  readonly gated: boolean
  /** Lets a request through or throws: 401 where a credential is missing, 403 where it is wrong. */
  admit(headers: IncomingHttpHeaders): void
  /** Whether this is what the gate lets clients in by, which is not for the upstream. */
  isOwn(name: string, value: string): boolean
}

/** The gate of a deployment. */
export function createGate({ apiKey, requiredHeaders }: GateOptions): Gate {
  const required = requiredHeaders.map((text) => {
    const at = text.indexOf('=')
    return at < 0
      ? { name: text.toLowerCase(), value: undefined }
      : { name: text.slice(0, at).toLowerCase(), value: text.slice(at + 1) }
  })
  return {
    gated: apiKey !== undefined || required.length > 0,
    admit(headers) {
      for (const { name, value } of required) {
        const given = headers[name]
        if (given === undefined) throw missing(`the header ${name}`)
        if (value !== undefined && !isSame(String(given), value)) throw refused()
      }
      if (apiKey === undefined) return
      const given = keyOf(headers)
      if (given === undefined) throw missing('the header X-Api-Key')
      if (!isSame(given, apiKey)) throw refused()
    },
    isOwn(name, value) {
      const isKey =
        apiKey !== undefined && value.split(/[\s,]+/).some((word) => isSame(word, apiKey))
      // What a header must say may be a plain word, such as a kind: under another name it is the client's own.
      return isKey || required.some((own) => own.name === name && isGiven(value, own.value))
    },
  }
}

const isGiven = (value: string, expected: string | undefined) =>
  expected !== undefined && isSame(value, expected)

function keyOf(headers: IncomingHttpHeaders): string | undefined {
  const own = headers['x-api-key']
  if (own !== undefined) return String(own)
  return /^bearer (.+)$/i.exec(headers.authorization ?? '')?.[1]
}

/** Compares digests, so that neither the time nor the length tells anything. */
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
