import { keyOf, type Secret } from './secret.ts'
import { isSame, signatureOf } from './signature.ts'

/** A request that should be a webhook of Standard Webhooks. */
export interface WebhookCheck {
  /** The key of the sender. While keys change, a list of those that count. */
  readonly secret: Secret | readonly Secret[]
  /** The headers of the request, whatever the case of their names. */
  readonly headers: Headers | Readonly<Record<string, string | readonly string[] | undefined>>
  /** The bytes of the request as they came: JSON that was parsed and written anew has other bytes. */
  readonly body: string | Uint8Array
  /** The time, in milliseconds since 1970; by default the clock's. */
  readonly now?: number
}

/** By how many seconds the clocks of sender and receiver may differ, with the way of the request counted in. */
const tolerance = 5 * 60
/** How many signatures of one request are checked: a sender that changes keys sends two. */
const mostSignatures = 16

/**
 * Whether a request is a webhook that somebody with one of the secrets has sent within the last five minutes. The
 * comparison takes constant time, and anything malformed is false: nothing that a caller sends makes this throw. A
 * webhook that is sent again within these minutes has the same `webhook-id`: a receiver that must not act twice remembers the ids.
 */
export function verifyWebhook({ secret, headers, body, now = Date.now() }: WebhookCheck): boolean {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return false
  const id = headerOf(headers, 'webhook-id')
  const timestamp = headerOf(headers, 'webhook-timestamp')
  const signatures = headerOf(headers, 'webhook-signature')
  if (!id || !timestamp || !signatures || !/^\d{1,12}$/.test(timestamp)) return false
  if (!(Math.abs(now / 1000 - Number(timestamp)) <= tolerance)) return false
  const given = signatures.split(' ', mostSignatures)
  const secrets: readonly Secret[] = Array.isArray(secret) ? secret : [secret]
  return secrets.some((one) => {
    const key = keyOf(one)
    if (!key) return false
    const expected = signatureOf({ id, timestamp, body }, key)
    return given.some((signature) => isSame(signature, expected))
  })
}

/** One header by its name in lower case; undefined also where the request has it twice. */
function headerOf(headers: WebhookCheck['headers'], name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined
  const values = Object.entries(headers ?? {}).filter(([key]) => key.toLowerCase() === name)
  const [, value] = values[0] ?? []
  const only = Array.isArray(value) && value.length === 1 ? value[0] : value
  return values.length === 1 && typeof only === 'string' ? only : undefined
}
